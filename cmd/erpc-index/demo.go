package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"
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
func (c *demoCmd) Run(e *env) error {
	keys, err := c.set()
	if err != nil {
		return err
	}
	if c.Each < time.Millisecond || c.Each > time.Minute {
		return usagef("--each %v: want 1ms to 1m", c.Each)
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
		return e.print(true, r, "")
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d keys, %s\tGET/s\tp50\tp99\tp99.9\tscans/s\tscan p50\tthe paper's p99\n",
		keys.n, c.Transport)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f us\t%.1f us\t%.1f us\t%.0f\t%.1f us\t%s\n", row.What, row.GETs,
			row.Get.P50, row.Get.P99, row.Get.P999, row.Scans, row.Scan.P50, paper[row.What])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, "The paper: 14.3 M GET/s on 14 dispatch and 2 worker threads, "+
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
func (c *demoCmd) with(e *env, keys *keyset, scan string, r *demoResult) (err error) {
	s, err := c.start(scan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Fprintf(e.err, "a server with scans in %s listens on %s\n", scan, s.addr)
	flags := clientFlags{netFlags: c.netFlags, Servers: s.addr, Timeout: 10 * time.Second}
	l, err := (&loadCmd{clientFlags: flags, keyFlags: c.keyFlags, Depth: 64}).load(e)
	if err != nil {
		return err
	}
	r.Load = append(r.Load, l)
	fmt.Fprintf(e.err, "%d keys in %.1f s\n", l.Keys, l.Seconds)
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
			fmt.Fprintf(e.err, "%s: measured\n", what)
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

// child is a server in a process of its own. It ends when its standard input ends.
type child struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
	said  strings.Builder // its standard error
}

// start starts a server and waits until it listens.
func (c *demoCmd) start(scan string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr := "127.0.0.1:0"
	if c.Transport == "shm" {
		addr = fmt.Sprintf("shm:erpc-index-%d", os.Getpid())
	}
	s := &child{cmd: exec.Command(exe, "serve", "--child", "--json", "--addr="+addr,
		"--transport="+c.Transport, "--scan="+scan)}
	s.cmd.Env = append(os.Environ(), childEnv...)
	s.cmd.Stderr = &s.said
	ownGroup(s.cmd)
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var r ready
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		err = errors.Join(err, s.stop())
		return nil, fmt.Errorf("the server did not start: %w; %s", err, s.said.String())
	}
	s.addr = r.Addr
	return s, nil
}

// childEnv is added to a child's environment by tests, which are the program themselves.
var childEnv []string

// stop ends the process in peace.
func (s *child) stop() error { return errors.Join(s.stdin.Close(), s.cmd.Wait()) }
