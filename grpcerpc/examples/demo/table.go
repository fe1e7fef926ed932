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

// bench measures rows with a pair of each kind that they need.
type bench struct {
	*options
	rows  []int // of rows, by number
	kinds []int // columns of the table
	pairs [len(kinds)]pair
}

func newBench(o *options) *bench {
	b := &bench{options: o}
	for i := range rows {
		if strings.Contains(rows[i].name, o.only) {
			b.rows = append(b.rows, i)
			b.kinds = append(b.kinds, rows[i].kinds(o.bare)...)
		}
	}
	slices.Sort(b.kinds)
	b.kinds = slices.Compact(b.kinds)
	return b
}

// measured has the figures of a row and a kind, one for each round.
type measured struct {
	value []float64
	cpu   []float64 // microseconds of both processes for each operation
}

// measureAll measures all rows and prints them.
func (b *bench) measureAll() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	b.printHead(table)
	for _, i := range b.rows {
		all, err := b.measure(i)
		if err != nil {
			return err
		}
		b.print(table, &rows[i], all)
	}
	return table.Flush()
}

// measure measures a row: in each round its kinds, one after the other.
func (b *bench) measure(row int) (all [len(kinds)]measured, err error) {
	for range b.rounds {
		for _, i := range rows[row].kinds(b.bare) {
			value, cpu, err := b.pairs[i].measure(row, b.each)
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

func (b *bench) printHead(w io.Writer) {
	for _, i := range b.kinds {
		fmt.Fprint(w, "\t", kinds[i])
	}
	fmt.Fprintln(w, "\t")
}

// print prints a row: medians, and the ratios to grpc-go. Cells of other kinds are empty.
func (b *bench) print(w io.Writer, r *row, all [len(kinds)]measured) {
	base := &all[r.base]
	fmt.Fprint(w, r.name)
	for _, i := range b.kinds {
		fmt.Fprint(w, "\t")
		if m := &all[i]; m == base {
			fmt.Fprintf(w, "%.0f", median(m.value))
		} else if len(m.value) > 0 {
			b.printValue(w, m, base)
		}
	}
	fmt.Fprintln(w, "\t")
	if !b.bars {
		return
	}
	fmt.Fprint(w, "CPU us")
	for _, i := range b.kinds {
		fmt.Fprint(w, "\t")
		if m := &all[i]; m == base {
			fmt.Fprintf(w, "%.1f", median(m.cpu))
		} else if len(m.value) > 0 {
			fmt.Fprintf(w, "%.1f (%.2fx)", median(m.cpu), median(over(m.cpu, base.cpu)))
			fmt.Fprint(w, r.verdict(i, m, base))
		}
	}
	fmt.Fprintln(w, "\t")
}

// printValue prints the median and the ratio to that of base, with the range if there are bars.
func (b *bench) printValue(w io.Writer, m, base *measured) {
	ratios := over(m.value, base.value)
	fmt.Fprintf(w, "%.0f (%.2fx", median(m.value), median(ratios))
	if b.bars {
		fmt.Fprintf(w, ", %.2f-%.2f", slices.Min(ratios), slices.Max(ratios))
	}
	fmt.Fprint(w, ")")
}

// verdict says whether a kind meets its bar, if it has one.
func (r *row) verdict(kind int, m, base *measured) string {
	if kind != udpKind && kind != shmKind {
		return ""
	}
	bar, ratio := r.bars[kind-udpKind], median(over(m.value, base.value))
	text, met := fmt.Sprintf(" bar %.2f", bar), ratio >= bar
	if r.time {
		met = ratio <= bar
	}
	if r.cpu > 0 {
		text += fmt.Sprintf(", CPU %.2f", r.cpu)
		met = met && median(over(m.cpu, base.cpu)) <= r.cpu
	}
	if met {
		return text + " met"
	}
	return text + " MISSED"
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
