package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is something to measure. Run works for about the given time and returns nanoseconds per
// operation, of which lower is better.
type row struct {
	name string
	base string  // the row that its ratio refers to
	bar  float64 // the least ratio base / row; 0: none
	run  func(each time.Duration) float64
}

// options is the command line.
type options struct {
	keys    int
	rounds  int
	each    time.Duration
	only    string
	lookups int
	network string
	child   string
	clock   string
	pages   string
}

func parse() (o options) {
	flag.IntVar(&o.keys, "keys", 1_000_000, "keys")
	flag.IntVar(&o.rounds, "rounds", 7, "rounds")
	flag.DurationVar(&o.each, "each", 300*time.Millisecond, "time for a row in a round")
	flag.StringVar(&o.only, "rows", "", "begins of names of rows, with commas; their bases run too")
	flag.IntVar(&o.lookups, "gopt", 0, "measure package gopt, with tables of so many MiB")
	flag.StringVar(&o.network, "net", "", "udp or shm: measure the server, over this transport")
	flag.StringVar(&o.child, "child", "", "for the program itself: be such a server")
	flag.StringVar(&o.clock, "clock", "wall", "wall, or cpu: CPU time, where others use the machine")
	flag.StringVar(&o.pages, "pages", "default", "of the heap: huge, ordinary or default")
	flag.Parse()
	if o.lookups < 0 || o.keys < 1 || o.rounds < 1 || o.each <= 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	return o
}

func main() {
	o := parse()
	err := errors.Join(setClock(o.clock), setPages(o.pages))
	switch {
	case err != nil:
	case o.child != "":
		err = serveChild(o.child, o.network, o.keys, o.pages)
	case o.lookups > 0:
		err = o.measure(new(bench), lookupRows(o.lookups<<20, o.wants))
	case o.network != "":
		err = o.server()
	default:
		b := newBench(o.keys)
		b.grow()
		err = o.measure(b, slices.Concat(b.lookups(), b.inserts()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wants reports whether rows that begin with a name may be wanted.
func (o *options) wants(name string) bool {
	return o.only == "" || slices.ContainsFunc(strings.Split(o.only, ","), func(begin string) bool {
		return strings.HasPrefix(begin, name) || strings.HasPrefix(name, begin)
	})
}

// measure runs rows in turns and prints the table.
func (o *options) measure(b *bench, rows []row) error {
	if o.only != "" {
		rows = choose(rows, strings.Split(o.only, ","))
	}
	if o.pages == "huge" {
		bytes, err := collapse()
		if err != nil {
			return err
		}
		fmt.Printf("%d MiB in huge pages\n", bytes>>20)
	}
	times := map[string][]float64{}
	for range o.rounds {
		for _, r := range rows {
			times[r.name] = append(times[r.name], r.run(o.each))
		}
	}
	report(rows, times)
	if b.wrong > 0 {
		return fmt.Errorf("%d wrong answers", b.wrong)
	}
	return nil
}

// choose returns the rows that are asked for, and their bases.
func choose(rows []row, names []string) []row {
	want := map[string]bool{}
	for _, r := range rows {
		for _, n := range names {
			if strings.HasPrefix(r.name, n) {
				want[r.name], want[r.base] = true, true
			}
		}
	}
	return slices.DeleteFunc(rows, func(r row) bool { return !want[r.name] })
}

func report(rows []row, times map[string][]float64) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tns\tbest\tM/s\ttimes as fast\trange\tas\tbar\t")
	for _, r := range rows {
		t := times[r.name]
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t", r.name, median(t), slices.Min(t), 1e3/median(t))
		if r.base != "" {
			ratios := make([]float64, len(t))
			for i := range t {
				ratios[i] = times[r.base][i] / t[i]
			}
			fmt.Fprintf(w, "%.2f\t%.2f to %.2f\t%s\t",
				median(ratios), slices.Min(ratios), slices.Max(ratios), r.base)
			if r.bar > 0 {
				met := "met"
				if median(ratios) < r.bar {
					met = "missed"
				}
				fmt.Fprintf(w, "%.2f\t%s", r.bar, met)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
