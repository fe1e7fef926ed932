package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
)

type simScaleCmd struct {
	simFlags
	Nodes     int           `default:"100" help:"Nodes of the cluster; default ${default}." placeholder:"N"`
	Threads   string        `default:"1,2,5,10" help:"Threads per node; default ${default}." placeholder:"N,..."`
	Algorithm string        `default:"timely" help:"Congestion control: timely, dcqcn or none; default ${default}." placeholder:"NAME"`
	Size      int           `default:"32" help:"Bytes in requests and responses; default ${default}." placeholder:"BYTES"`
	Batch     int           `default:"3" help:"RPCs issued together; default ${default}." placeholder:"N"`
	Window    int           `default:"60" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Warmup    time.Duration `default:"500us" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration  time.Duration `default:"2ms" help:"Virtual time that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simScaleCmd) Help() string {
	return `Examples:
  erpc sim scale --threads 1,2
  erpc sim scale --nodes 20 --threads 1,5,10 --duration 5ms
  erpc sim scale --json

Every thread has a client session to every other thread of the cluster. With 100
nodes of 10 threads that makes a million sessions, with two ends each, in this
process: it takes some gigabytes and minutes.`
}

func (c *simScaleCmd) config() (f simlab.ScaleConfig, err error) {
	f = simlab.ScaleConfig{Nodes: c.Nodes, Size: c.Size, Batch: c.Batch, Window: c.Window, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Threads, err = numbers("--threads", c.Threads, 1, 32); err != nil {
		return f, err
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "dcqcn", "none"); err != nil {
		return f, err
	}
	return f, errors.Join(between("--nodes", c.Nodes, 2, 1000), between("--size", c.Size, 4, 960), between("--window", c.Window, 1, 1000),
		between("--batch", c.Batch, 1, c.Window), simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, 10*time.Microsecond))
}

// Run implements the subcommand.
func (c *simScaleCmd) Run(e *env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	debug.SetGCPercent(min(c.GC, 100)) // the heap is large and hardly changes
	stopProfile, err := startProfile(c.Profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	res, err := simlab.Scale(e.ctx, cfg, newProgress(e).tell)
	if err != nil {
		return err
	}
	if len(res.Rows) == 0 {
		return errStopped
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(res)
	}
	return printScale(e.out, &res)
}

func printScale(w io.Writer, r *simlab.ScaleResult) error {
	t := table(w)
	fmt.Fprintln(t, "threads\tsessions\trate\tsent\tp50\tp99\tp99.9\tp99.99\tsent again\theap, buffers")
	fmt.Fprintln(t, "per node\tper node\tper node\tper node\t\t\t\t\tper node, s\tper session end")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%d\t%.2f Mrps\t%.1f Gbit/s\t%.1f us\t%.1f us\t%.0f us\t%.0f us\t%.0f\t%.0f, %.0f B\n", row.Threads, row.Sessions,
			row.Mrps, row.Gbps, row.P50, row.P99, row.P999, row.P9999, row.Retransmits, row.Memory, row.Reserved)
	}
	return t.Flush()
}
