package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/labs/benchrows"
)

func main() {
	keys := flag.Int("keys", 1_000_000, "keys")
	rounds := flag.Int("rounds", 7, "rounds")
	each := flag.Duration("each", 300*time.Millisecond, "time for a row in a round")
	only := flag.String("rows", "", "begins of names of caches, with commas; mica is always there. "+
		"With -net: of rows")
	name := flag.String("clock", "wall", "wall, or cpu: CPU time of the thread, on a busy machine")
	network := flag.String("net", "", "udp or shm: measure the server, over this transport")
	child := flag.String("child", "", "for the program itself: be such a server")
	asJSON := flag.Bool("json", false, "with -net: print one JSON object")
	var text textFlags
	text.register()
	flag.Parse()
	if *keys < 1 || *rounds < 1 || *each <= 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	clock, err := benchrows.NewClock(*name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if mode, ok := strings.CutPrefix(*child, "text "); ok {
		end(serveText(*keys, text.load.value, mode))
		return
	}
	if text.servers != "" {
		text.load.keys, text.load.cpu = *keys, *name == "cpu"
		end(measureText(text.load, text.servers, *only, *rounds, *each, *asJSON))
		return
	}
	if *network != "" {
		var err error
		if *child != "" {
			err = serveChild(*child, *network, *keys)
		} else {
			err = measureServers(*keys, *network, *only, *rounds, *each, *asJSON)
		}
		end(err)
		return
	}
	b := newBench(*keys)
	b.clock = clock
	caches, err := b.fill(strings.Split(*only, ","))
	end(err)
	for range *rounds {
		for _, c := range caches {
			c.gets = append(c.gets, b.time(*each, func() { b.get(c) }))
			if c.batch != nil {
				c.batches = append(c.batches, b.time(*each, func() { b.getBatch(c) }))
				c.halves = append(c.halves, b.time(*each, func() { b.getHalves(c) }))
			}
			c.turns = append(c.turns, b.time(*each, func() { b.turns(c) }))
			c.puts = append(c.puts, b.time(*each, func() { b.put(c) }))
			if c.warm != nil {
				c.warmed = append(c.warmed, b.time(*each, func() { b.putWarm(c) }))
			}
		}
	}
	report(*keys, caches)
	if b.wrong > 0 {
		fmt.Fprintf(os.Stderr, "%d wrong answers\n", b.wrong)
		os.Exit(1)
	}
}

// end ends the program if there is an error.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(keys int, caches []*cache) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d keys\tns\tM/s\tmica is so many times as fast\trange\tmissing\n", keys)
	line := func(name string, times, mica []float64, missing uint64) {
		ratios := make([]float64, len(times))
		for i := range times {
			ratios[i] = times[i] / mica[i]
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.2f\t%.2f to %.2f\t%d\n", name, benchrows.Median(times),
			1e3/benchrows.Median(times), benchrows.Median(ratios), slices.Min(ratios),
			slices.Max(ratios), missing)
	}
	first := caches[0]
	for _, c := range caches {
		line(c.name+" GET", c.gets, first.gets, c.missing)
	}
	for _, c := range caches {
		times := c.gets
		if c.halves != nil {
			times = c.halves
		}
		line(c.name+" GET, mica in batches of 16", times, first.halves, c.missing)
	}
	for _, c := range caches {
		times := c.gets
		if c.batches != nil {
			times = c.batches
		}
		line(c.name+" GET, mica in batches of 32", times, first.batches, c.missing)
	}
	for _, c := range caches {
		line(c.name+" PUT", c.puts, first.puts, c.missing)
	}
	for _, c := range caches {
		times := c.puts
		if c.warmed != nil {
			times = c.warmed
		}
		line(c.name+" PUT, mica warmed by 32", times, first.warmed, c.missing)
	}
	for _, c := range caches {
		line(c.name+" GET and PUT in turns", c.turns, first.turns, c.missing)
	}
	_ = w.Flush() // to standard output
}
