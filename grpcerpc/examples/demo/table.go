package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// pair has the processes of a kind.
type pair struct{ server, client *child }

// bench measures the rows with a pair of each kind.
type bench struct {
	*options
	pairs []pair
}

// measured has the figures of a row and a kind, one for each round.
type measured struct {
	value []float64
	cpu   []float64 // microseconds of both processes for each operation
}

// measureAll measures all rows and prints them.
func (b *bench) measureAll() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\t%s\t\n", strings.Join(kinds[:b.kinds()], "\t"))
	for i := range rows {
		if r := &rows[i]; strings.Contains(r.name, b.only) {
			all, err := b.measure(i)
			if err != nil {
				return err
			}
			b.print(table, r, all)
		}
	}
	return table.Flush()
}

// measure measures a row: in each round all kinds, one after the other.
func (b *bench) measure(row int) (all [len(kinds)]measured, err error) {
	for range b.rounds {
		for i, p := range b.pairs {
			value, cpu, err := p.measure(row, b.each)
			if err != nil {
				return all, fmt.Errorf("%s over %s: %w", rows[row].name, kinds[i], err)
			}
			m := &all[i]
			m.value, m.cpu = append(m.value, value), append(m.cpu, cpu)
		}
	}
	return all, nil
}

// measure measures a row once. Cpu is for each operation.
func (p pair) measure(row int, each time.Duration) (value, cpu float64, err error) {
	before, err := p.served()
	if err != nil {
		return 0, 0, err
	}
	line, err := p.client.ask(fmt.Sprintf("%d %d", row, each.Nanoseconds()))
	if err != nil {
		return 0, 0, err
	}
	var ops, used int64
	if _, err := fmt.Sscan(line, &value, &ops, &used); err != nil {
		return 0, 0, err
	}
	after, err := p.served()
	return value, float64(used+after-before) / 1e3 / float64(max(ops, 1)), err
}

// served returns the CPU time of the server in nanoseconds.
func (p pair) served() (n int64, err error) {
	line, err := p.server.ask("cpu")
	if err == nil {
		_, err = fmt.Sscan(line, &n)
	}
	return n, err
}

// print prints a row: medians, and the ratios to grpc-go.
func (b *bench) print(w io.Writer, r *row, all [len(kinds)]measured) {
	fmt.Fprintf(w, "%s\t%.0f\t", r.name, median(all[0].value))
	for _, m := range all[1:b.kinds()] {
		ratios := over(m.value, all[0].value)
		fmt.Fprintf(w, "%.0f (%.2fx", median(m.value), median(ratios))
		if b.bars {
			fmt.Fprintf(w, ", %.2f-%.2f", slices.Min(ratios), slices.Max(ratios))
		}
		fmt.Fprint(w, ")\t")
	}
	fmt.Fprintln(w)
	if !b.bars {
		return
	}
	fmt.Fprintf(w, "CPU us\t%.1f\t", median(all[0].cpu))
	for i, m := range all[1:b.kinds()] {
		ratio, cpu := median(over(m.value, all[0].value)), median(over(m.cpu, all[0].cpu))
		if i >= len(r.bars) {
			fmt.Fprintf(w, "%.1f (%.2fx)\t", median(m.cpu), cpu)
			continue
		}
		met := ratio >= r.bars[i]
		if r.time {
			met = ratio <= r.bars[i]
		}
		verdict := fmt.Sprintf("bar %.2f", r.bars[i])
		if r.cpu > 0 {
			verdict += fmt.Sprintf(", CPU %.2f", r.cpu)
			met = met && cpu <= r.cpu
		}
		if verdict += " met"; !met {
			verdict = strings.TrimSuffix(verdict, " met") + " MISSED"
		}
		fmt.Fprintf(w, "%.1f (%.2fx) %s\t", median(m.cpu), cpu, verdict)
	}
	fmt.Fprintln(w)
}

// over divides round by round.
func over(a, b []float64) (q []float64) {
	for i := range a {
		q = append(q, a[i]/b[i])
	}
	return q
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
