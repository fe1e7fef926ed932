package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/benchrows"
)

type demoCmd struct {
	workload
	Gets   float64       `default:"0.95" help:"Share of GETs; ${default}." placeholder:"P"`
	Rounds int           `default:"7" help:"Rounds; default ${default}." placeholder:"N"`
	Each   time.Duration `default:"300ms" help:"Time of a row; ${default}." placeholder:"TIME"`
	JSON   bool          `name:"json" help:"Print one JSON object."`
}

// result is the output with --json.
type result struct {
	Rows []rowResult `json:"rows"`
}

type rowResult struct {
	Name  string    `json:"name"`
	Nanos []float64 `json:"ns_per_call"` // of each round
	Calls uint64    `json:"calls"`       // all of them had the right answer
	Base  string    `json:"base,omitempty"`
	Ratio float64   `json:"times_as_fast_as_base,omitempty"` // median of the rounds
}

func (c *demoCmd) check() error {
	switch {
	case c.Keys < 1 || c.Keys > 1_000_000:
		return cli.Usagef("--keys %d: want 1 to 1000000", c.Keys)
	case c.Value < 4 || c.Value > 1024:
		return cli.Usagef("--value %d: want 4 to 1024", c.Value)
	case !(c.Gets >= 0 && c.Gets <= 1):
		return cli.Usagef("--gets %v: want 0 to 1", c.Gets)
	case c.Rounds < 1 || c.Rounds > 1000:
		return cli.Usagef("--rounds %d: want 1 to 1000", c.Rounds)
	case c.Each < time.Millisecond || c.Each > time.Minute:
		return cli.Usagef("--each %v: want 1ms to 1m", c.Each)
	}
	return nil
}

// Run implements the subcommand.
func (c *demoCmd) Run(e *cli.Env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	return c.run(e)
}

// run starts the server, and measures.
func (c *demoCmd) run(e *cli.Env) (err error) {
	remove, err := c.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c.moreThreads()
	core := -1
	if cores := cli.AllowedCores(); len(cores) > 1 {
		core = cores[0]
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = cli.PinThread(cores[1]) // without it the figures are worse, not wrong
	}
	var r ready
	args := []string{"serve", "--dir=" + c.Dir, fmt.Sprint("--keys=", c.Keys),
		fmt.Sprint("--value=", c.Value), fmt.Sprint("--core=", core)}
	if c.rdma() {
		args = append(args, "--adapter="+c.server.String())
	}
	s, err := cli.StartChild(args, childEnv, &r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	cl, err := newClient(c.workload, c.Gets, r.Addrs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cl.end()) }()
	return c.measure(e, cl)
}

// measure lets the rows take turns.
func (c *demoCmd) measure(e *cli.Env, cl *client) error {
	var rows []benchrows.Row
	for i, r := range c.rows() {
		rows = append(rows, benchrows.Row{Name: r.name, Base: r.base,
			Run: func(each time.Duration) float64 { return cl.run(i, each) }})
	}
	times := benchrows.Times{}
	for n := range c.Rounds {
		for _, r := range rows {
			if err := e.Ctx.Err(); err != nil {
				return err
			}
			times[r.Name] = append(times[r.Name], r.Run(c.Each))
			if cl.err != nil {
				return fmt.Errorf("%s: %w", r.Name, cl.err)
			}
		}
		fmt.Fprintf(e.Err, "round %d of %d\n", n+1, c.Rounds)
	}
	if c.JSON {
		var out result
		for i, r := range rows {
			res := rowResult{Name: r.Name, Nanos: times[r.Name], Calls: cl.drivers[i].ended(),
				Base: r.Base}
			if r.Base != "" {
				res.Ratio = benchrows.Median(times.Ratios(r.Name, r.Base))
			}
			out.Rows = append(out.Rows, res)
		}
		return e.Print(true, out, "")
	}
	if err := times.Report(e.Out, rows); err != nil {
		return err
	}
	if c.rdma() {
		fmt.Fprint(e.Out, perRound(times, rows))
		_, err := fmt.Fprintf(e.Out, rdmaText, c.Keys, c.Value, 100*c.Gets, cl.total())
		return err
	}
	_, err := fmt.Fprintf(e.Out, "%d keys, values of %d bytes, %.0f %% GETs; %d calls, each answer "+
		"checked.\nOne server thread, one client thread. Both directions of shared memory cost the "+
		"same, so\nfetching has no advantage here: the papers' is that of their adapters.\n",
		c.Keys, c.Value, 100*c.Gets, cl.total())
	return err
}

// childEnv is added to a child's environment by tests, which are the program themselves.
var childEnv []string
