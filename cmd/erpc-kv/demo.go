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
	Each   time.Duration `default:"4s" help:"How long for each line; ${default}." placeholder:"TIME"`
	Memory int           `default:"256" help:"${memory_help}" placeholder:"MIB"`
}

// demoResult is the output of the demonstration with --json.
type demoResult struct {
	Load loadResult    `json:"load"`
	Rows []benchResult `json:"rows"`
}

// row is a line of the demonstration. The paper's figures: HERD, section 5, 6 cores at the server,
// 51 clients.
type row struct {
	what        string
	gets, zipf  float64
	outstanding int
	paper       string
}

var rows = []row{
	{"one GET at a time", 1, 0, 1, "less than 5 us"},
	{"95 % GETs, uniform", 0.95, 0, 64, "26 M/s, about 5 us"},
	{"50 % GETs, uniform", 0.5, 0, 64, "26 M/s"},
	{"95 % GETs, Zipf .99", 0.95, 0.99, 64, "as uniform"},
	{"50 % GETs, Zipf .99", 0.5, 0.99, 64, "as uniform"},
}

// Run implements the subcommand.
func (c *demoCmd) Run(e *cli.Env) (err error) {
	if _, err := c.set(); err != nil {
		return err
	}
	if c.Each < time.Millisecond || c.Each > time.Minute {
		return cli.Usagef("--each %v: want 1ms to 1m", c.Each)
	}
	r, err := c.run(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.Print(true, r, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d keys, %d B values, %s\tM/s\tGET p50\tp99\tp99.9\tmissing\tthe paper\n",
		c.Keys, c.Value, c.Transport)
	for i, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%.3f\t%.1f us\t%.1f us\t%.1f us\t%d\t%s\n", row.What, row.Rate/1e6,
			row.Get.P50, row.Get.P99, row.Get.P999, row.Missing, rows[i].paper)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Out, "The paper (HERD): RDMA, 6 server cores, 51 client processes; one "+
		"core alone 6.3 M/s.\nHere one server thread and one client thread, which draws each key and "+
		"takes the time of each\nanswer, and the two share the machine as the system likes: where both "+
		"have a core of their own,\nand keys are drawn before, make bench-kv shows higher rates. "+
		"missing: keys that the cache has\nforgotten.")
	return err
}

// run starts a server, fills it and measures all rows.
func (c *demoCmd) run(e *cli.Env) (r demoResult, err error) {
	s, addr, err := c.start()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Fprintf(e.Err, "an empty cache of %d MiB listens on %s\n", c.Memory, addr)
	flags := clientFlags{netFlags: c.netFlags, Servers: []string{addr}, Timeout: 10 * time.Second}
	by := designFlags{Design: "erpc"}
	load := loadCmd{clientFlags: flags, designFlags: by, keyFlags: c.keyFlags, Depth: 64}
	r.Load, err = load.load(e)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(e.Err, "%d keys in %.1f s\n", r.Load.Keys, r.Load.Seconds)
	for _, row := range rows {
		b := benchCmd{clientFlags: flags, designFlags: by, keyFlags: c.keyFlags, Gets: row.gets,
			Zipf: row.zipf, Outstanding: row.outstanding, Each: c.Each}
		res, err := b.measure(e)
		if err != nil {
			return r, err
		}
		res.What = row.what
		r.Rows = append(r.Rows, res)
		fmt.Fprintf(e.Err, "%s: measured\n", row.what)
	}
	return r, nil
}

// start starts a server in a process of its own and returns its address.
func (c *demoCmd) start() (s *cli.Child, addr string, err error) {
	if addr = "127.0.0.1:0"; c.Transport == "shm" {
		addr = fmt.Sprintf("shm:erpc-kv-%d", os.Getpid())
	}
	if err := c.Load(); err != nil {
		return nil, "", err
	}
	args := append([]string{"serve", "--child", "--json", "--addr=" + addr,
		"--transport=" + c.Transport, fmt.Sprint("--memory=", c.Memory),
		fmt.Sprint("--item-size=", keySize+c.Value)}, c.Args()...)
	var r ready
	s, err = cli.StartChild(args, childEnv, &r)
	if err == nil && len(r.Addrs) == 0 {
		err = errors.Join(errors.New("the server has no address"), s.Stop())
	}
	if err != nil {
		return nil, "", err
	}
	return s, r.Addrs[0], nil
}

// childEnv is added to a child's environment by tests, which are the program themselves.
var childEnv []string
