package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// bench measures the rows with a client of each kind.
type bench struct {
	*options
	clients []pb.GreeterClient
	in      io.Writer // of the server
	out     *bufio.Scanner
}

// measured has the figures of a row and a kind, one for each round.
type measured struct {
	value []float64
	cpu   []float64 // microseconds of both processes for each operation
}

// measureAll measures all rows and prints them.
func (b *bench) measureAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\t%s\t\n", strings.Join(kinds[:], "\t"))
	for i := range rows {
		if r := &rows[i]; strings.Contains(r.name, b.only) {
			all, err := b.measure(ctx, r)
			if err != nil {
				return err
			}
			b.print(table, r, all)
		}
	}
	return table.Flush()
}

// measure measures a row: in each round all kinds, one after the other.
func (b *bench) measure(ctx context.Context, r *row) (all [len(kinds)]measured, err error) {
	for range b.rounds {
		for i, client := range b.clients {
			before, err := b.cpu()
			if err != nil {
				return all, err
			}
			f, err := r.measure(ctx, client, b.each)
			if err != nil {
				return all, fmt.Errorf("%s over %s: %w", r.name, kinds[i], err)
			}
			after, err := b.cpu()
			if err != nil {
				return all, err
			}
			m := &all[i]
			m.value = append(m.value, f.value)
			m.cpu = append(m.cpu, float64((after-before).Nanoseconds())/1e3/float64(max(f.ops, 1)))
		}
	}
	return all, nil
}

// cpu returns the CPU time of both processes.
func (b *bench) cpu() (time.Duration, error) {
	if _, err := io.WriteString(b.in, "cpu\n"); err != nil {
		return 0, err
	}
	if !b.out.Scan() {
		return 0, fmt.Errorf("the server said nothing: %w", b.out.Err())
	}
	n, err := strconv.ParseInt(b.out.Text(), 10, 64)
	return time.Duration(n) + cpu(), err
}

// print prints a row: medians, and the ratios to grpc-go.
func (b *bench) print(w io.Writer, r *row, all [len(kinds)]measured) {
	fmt.Fprintf(w, "%s\t%.0f\t", r.name, median(all[0].value))
	for _, m := range all[1:] {
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
	for i, m := range all[1:] {
		ratio, cpu := median(over(m.value, all[0].value)), median(over(m.cpu, all[0].cpu))
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
