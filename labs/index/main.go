package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// row is a benchrows.Row.
type row struct {
	name, base string
	bar        float64
	run        func(each time.Duration) float64
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
	ready   bool
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
	flag.BoolVar(&o.ready, "ready", false,
		"when all maps are filled say so, and wait for a line of input before measuring")
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
		err = errors.Join(b.size(), o.measure(b, slices.Concat(b.lookups(), b.floors(), b.inserts())))
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
func (o *options) measure(b *bench, list []row) error {
	var rows []benchrows.Row
	for _, r := range list {
		rows = append(rows, benchrows.Row{Name: r.name, Base: r.base, Bar: r.bar, Run: r.run})
	}
	if o.only != "" {
		rows = benchrows.Choose(rows, strings.Split(o.only, ","))
	}
	if o.pages == "huge" {
		bytes, err := collapse()
		if err != nil {
			return err
		}
		fmt.Printf("%d MiB in huge pages\n", bytes>>20)
	}
	if o.ready {
		fmt.Println("ready")
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return fmt.Errorf("-ready: %w", err)
		}
	}
	times := benchrows.Measure(rows, o.rounds, o.each)
	if err := times.Report(os.Stdout, rows); err != nil {
		return err
	}
	if b.wrong > 0 {
		return fmt.Errorf("%d wrong answers", b.wrong)
	}
	return nil
}

// size prints what the index takes.
func (b *bench) size() error {
	s, err := b.m.Check()
	if err == nil {
		fmt.Printf("%.1f bytes per key, %.1f keys per leaf, %d levels\n", s.PerKey(),
			float64(s.Keys)/float64(s.Leaves), s.Height)
	}
	return err
}

// use is the clock of this run.
var use *benchrows.Clock

// setClock chooses the clock, "wall" or "cpu", for the calling goroutine.
func setClock(name string) (err error) {
	use, err = benchrows.NewClock(name)
	return err
}
