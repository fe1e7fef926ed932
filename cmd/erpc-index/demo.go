package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type demoCmd struct {
	netFlags
	keyFlags
	Each time.Duration `default:"4s" help:"How long for each line; ${default}." placeholder:"TIME"`
	Plot string        `help:"${plot_help}" placeholder:"FILE"`
}

// demoResult is the output of the demonstration with --json.
type demoResult struct {
	Load []loadResult  `json:"load"`
	Rows []benchResult `json:"rows"`
}

// Run implements the subcommand.
func (c *demoCmd) Run(e *cli.Env) error {
	keys, err := c.set()
	if err != nil {
		return err
	}
	if c.Each < time.Millisecond || c.Each > time.Minute {
		return cli.Usagef("--each %v: want 1ms to 1m", c.Each)
	}
	if err := checkPlot(c.Plot); err != nil {
		return err
	}
	var r demoResult
	if err := c.with(e, keys, "loop", &r); err != nil {
		return err
	}
	if err := c.with(e, keys, "workers", &r); err != nil {
		return err
	}
	if c.Plot != "" {
		var curves []curve
		for _, row := range r.Rows {
			if row.What != rowLow {
				curves = append(curves, curve{row.What, row.curve})
			}
		}
		if err := savePlot(c.Plot, curves); err != nil {
			return err
		}
	}
	if c.JSON {
		return e.Print(true, r, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d keys, %s\tGET/s\tp50\tp99\tp99.9\tscans/s\tscan p50\tthe paper's p99\n",
		keys.n, c.Transport)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f us\t%.1f us\t%.1f us\t%.0f\t%.1f us\t%s\n", row.What, row.GETs,
			row.Get.P50, row.Get.P99, row.Get.P999, row.Scans, row.Scan.P50, paper[row.What])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Out, "The paper: 14.3 M GET/s on 14 dispatch and 2 worker threads, "+
		"64 clients\n"+
		"on 8 machines; median at low load 2.7 us. With few cores workers take time from the loop.")
	return err
}

// Rows of the demonstration.
const (
	rowLow     = "one GET at a time"
	rowNone    = "no scans"
	rowWorkers = "1 % scans, in workers"
	rowLoop    = "1 % scans, in the loop"
)

var paper = map[string]string{rowWorkers: "12 us", rowLoop: "26 us"}

// with measures a server whose scans run in workers, or in its loop.
func (c *demoCmd) with(e *cli.Env, keys *keyset, scan string, r *demoResult) (err error) {
	s, addr, err := c.start(scan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Fprintf(e.Err, "a server with scans in %s listens on %s\n", scan, addr)
	flags := clientFlags{netFlags: c.netFlags, Servers: addr, Timeout: 10 * time.Second}
	l, err := (&loadCmd{clientFlags: flags, keyFlags: c.keyFlags, Depth: 64}).load(e)
	if err != nil {
		return err
	}
	r.Load = append(r.Load, l)
	fmt.Fprintf(e.Err, "%d keys in %.1f s\n", l.Keys, l.Seconds)
	row := func(what string, scans float64, clients, outstanding int) {
		if err != nil {
			return
		}
		b := benchCmd{clientFlags: flags, keyFlags: c.keyFlags, Scans: scans, Clients: clients,
			Outstanding: outstanding, Each: c.Each}
		var res benchResult
		if res, err = b.measure(e, keys); err == nil {
			res.What = what
			r.Rows = append(r.Rows, res)
			fmt.Fprintf(e.Err, "%s: measured\n", what)
		}
	}
	if scan == "loop" {
		row(rowLow, 0, 1, 1)
		row(rowNone, 0, 8, 2)
		row(rowLoop, 0.01, 8, 2)
		return err
	}
	row(rowWorkers, 0.01, 8, 2)
	return err
}

// start starts a server in a process of its own and returns its address.
func (c *demoCmd) start(scan string) (s *cli.Child, addr string, err error) {
	if addr = "127.0.0.1:0"; c.Transport == "shm" {
		addr = fmt.Sprintf("shm:erpc-index-%d", os.Getpid())
	}
	if err := c.Load(); err != nil {
		return nil, "", err
	}
	args := append([]string{"serve", "--child", "--json", "--addr=" + addr,
		"--transport=" + c.Transport, "--scan=" + scan}, c.Args()...)
	var r ready
	s, err = cli.StartChild(args, childEnv, &r)
	if err != nil {
		return nil, "", err
	}
	return s, r.Addr, nil
}

// childEnv is added to a child's environment by tests, which are the program themselves.
var childEnv []string
