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

func main() {
	keys := flag.Int("keys", 1_000_000, "keys")
	rounds := flag.Int("rounds", 7, "rounds")
	each := flag.Duration("each", 300*time.Millisecond, "time for a row in a round")
	only := flag.String("rows", "", "begins of names of rows, with commas; their bases run too")
	lookups := flag.Int("gopt", 0, "in place of the index, package gopt with tables of so many MiB")
	clock := flag.String("clock", "wall", "wall, or cpu: CPU time, for machines that others use")
	pages := flag.String("pages", "default", "of the heap: huge, ordinary or default")
	flag.Parse()
	if err := errors.Join(setClock(*clock), setPages(*pages)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if *lookups < 0 || *keys < 1 || *rounds < 1 || *each <= 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	b := new(bench)
	var rows []row
	if *lookups > 0 {
		rows = lookupRows(*lookups<<20, func(name string) bool {
			return *only == "" || slices.ContainsFunc(strings.Split(*only, ","), func(o string) bool {
				return strings.HasPrefix(o, name) || strings.HasPrefix(name, o)
			})
		})
	} else {
		b = newBench(*keys)
		rows = slices.Concat(b.lookups(), b.inserts())
	}
	if *only != "" {
		rows = choose(rows, strings.Split(*only, ","))
	}
	if *pages == "huge" {
		bytes, err := collapse()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("%d MiB in huge pages\n", bytes>>20)
	}
	times := map[string][]float64{}
	for range *rounds {
		for _, r := range rows {
			times[r.name] = append(times[r.name], r.run(*each))
		}
	}
	report(rows, times)
	if b.wrong > 0 {
		fmt.Fprintf(os.Stderr, "%d wrong answers\n", b.wrong)
		os.Exit(1)
	}
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
