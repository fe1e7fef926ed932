package main

import (
	"bufio"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed budget.txt
var table string

const (
	otherwise = 20 * time.Second // of a package without a row
	shown     = 15               // slowest packages
)

// took is the time of one package.
type took struct {
	pkg          string
	time, budget time.Duration
	cached       bool
}

func main() {
	times := flag.Float64("times", 1, "how many `times` its budget a package may take")
	flag.Parse()
	if err := run(flag.Args(), *times, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// run reports the packages whose times are in the named files. It multiplies all budgets by times.
func run(names []string, times float64, out io.Writer) error {
	budgets, err := parseTable(table)
	if err != nil {
		return err
	}
	var list []took
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		list = append(list, parse(f, budgets)...)
		if err := f.Close(); err != nil {
			return err
		}
	}
	for i := range list {
		list[i].budget = time.Duration(float64(list[i].budget) * times)
	}
	report(list, out)
	return nil
}

// parseTable reads lines of a package and its seconds.
func parseTable(text string) (map[string]time.Duration, error) {
	budgets := map[string]time.Duration{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		if len(f) != 2 {
			return nil, fmt.Errorf("budget.txt: %q", strings.TrimSpace(line))
		}
		seconds, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("budget.txt: %w", err)
		}
		budgets[f[0]] = time.Duration(seconds) * time.Second
	}
	return budgets, nil
}

const module = "github.com/userspace-rpc/erpc/"

// parse finds the lines "ok  package  1.234s" and "FAIL  package  1.234s".
func parse(r io.Reader, budgets map[string]time.Duration) (list []took) {
	for s := bufio.NewScanner(r); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 3 || f[0] != "ok" && f[0] != "FAIL" {
			continue
		}
		t := took{pkg: strings.TrimPrefix(f[1], module), budget: otherwise}
		if b, ok := budgets[t.pkg]; ok {
			t.budget = b
		}
		var err error
		if t.time, err = time.ParseDuration(f[2]); err != nil {
			if f[2] != "(cached)" {
				continue
			}
			t.cached = true
		}
		list = append(list, t)
	}
	return list
}

// report prints the slowest packages and those beyond their budget.
func report(list []took, out io.Writer) {
	slices.SortStableFunc(list, func(a, b took) int { return int(b.time - a.time) })
	var sum time.Duration
	cached, over := 0, 0
	for i, t := range list {
		sum += t.time
		if t.cached {
			cached++
			continue
		}
		mark := ""
		if t.time > t.budget {
			mark = "  beyond its budget"
			over++
		}
		if i < shown || mark != "" {
			fmt.Fprintf(out, "%8.1f s of %3.0f  %s%s\n", t.time.Seconds(), t.budget.Seconds(), t.pkg, mark)
		}
	}
	fmt.Fprintf(out, "%d packages, %.0f s of tests, %d from the cache, %d beyond their budget\n",
		len(list), sum.Seconds(), cached, over)
}
