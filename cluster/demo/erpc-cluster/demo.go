package main

import (
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type demoCmd struct {
	flags
	For time.Duration `default:"1m" help:"How long; at least 20s. Default ${default}." placeholder:"TIME"`
}

// step is something that happens at a share of the time.
type step struct {
	at   float64
	do   string
	what string
}

// script has the steps of the demo. Of five nodes in two zones web-0, web-2 and web-4 are in the
// client's.
var script = []step{
	{0.10, "add", "a node is added, web-5 in zone b"},
	{0.18, "kill web-2", "web-2 is killed"},
	{0.28, "drain web-0", "web-0 drains"},
	{0.36, "zone a", "the rest of zone a is lost"},
	{0.46, "add", "zone a has a node again, web-6"},
	{0.52, "stop web-1", "web-1 stands still"},
	{0.64, "cont web-1", "web-1 goes on, past its lease"},
	{0.70, "etcd stop", "etcd is away"},
	{0.90, "etcd start", "etcd is back"},
}

// seen counts the calls between a step and the next.
type seen struct {
	step
	calls, failed int
	shares        map[string]int
	p99           int64
	gap           time.Duration
}

// Run implements the subcommand.
func (c *demoCmd) Run(e *cli.Env) (err error) {
	if c.For < 20*time.Second || c.Nodes != 5 || c.Zones != 2 {
		return cli.Usagef("--for %v, --nodes %d, --zones %d: the script wants 20s, 5 and 2", c.For,
			c.Nodes, c.Zones)
	}
	f, err := startFleet(e, c.flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	begin := time.Now()
	rows := []seen{{step: step{what: "five nodes, three in the client's zone"}}}
	note := func() {
		r := &rows[len(rows)-1]
		seen := f.load.take()
		r.shares, r.gap = map[string]int{}, seen.gap
		for name, a := range seen.answers {
			r.calls += int(a.count)
			r.shares[name] = int(a.count)
			r.p99 = max(r.p99, a.times.ValueAtQuantile(99))
		}
		for text, n := range seen.failed {
			r.failed += n
			fmt.Fprintf(e.Err, "%d calls: %s\n", n, cli.Visible(text))
		}
	}
	for _, s := range append(script, step{at: 1}) {
		at := begin.Add(time.Duration(s.at * float64(c.For)))
		select {
		case <-time.After(time.Until(at)):
		case <-e.Ctx.Done():
			return nil
		}
		note()
		if s.do == "" {
			break
		}
		fmt.Fprintf(e.Err, "%5.1f s  %s\n", time.Since(begin).Seconds(), s.what)
		if err := f.do(s.do); err != nil {
			return err
		}
		rows = append(rows, seen{step: s})
	}
	return report(e, f, rows)
}

// report prints what was seen.
func report(e *cli.Env, f *fleet, rows []seen) error {
	t := cli.NewTable(e.Out)
	fmt.Fprintf(t, "then\tcalls\tfailed\tworst p99 us\tlongest gap ms\tshares of the calls in %%\n")
	for _, r := range rows {
		var names []string
		for name := range r.shares {
			names = append(names, name)
		}
		sort.Strings(names)
		shares := ""
		for _, name := range names {
			shares += fmt.Sprintf("%s %.0f  ", name, 100*float64(r.shares[name])/float64(max(r.calls, 1)))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%s\n", r.what, r.calls, r.failed, r.p99,
			float64(r.gap.Microseconds())/1000, shares)
	}
	sums := f.load.sums()
	fmt.Fprintf(t, "all\t%d\t%d\n", sums.Calls-sums.lost(), sums.lost())
	fmt.Fprintf(t, "not made, since all callers waited\t%d\n", sums.Late)
	return t.Flush()
}
