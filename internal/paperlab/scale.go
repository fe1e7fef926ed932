package paperlab

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simScaleCmd struct {
	simFlags
	Nodes     int           `default:"100" help:"Nodes of the cluster; default ${default}." placeholder:"N"`
	Threads   string        `default:"1,2,5,10" help:"Threads per node; default ${default}." placeholder:"N,..."`
	Peers     int           `help:"Each thread has sessions to so many of those behind it; default 0: to all." placeholder:"N"`
	Spines    int           `help:"Racks of 40 nodes below so many switches; default 0: the paper's five racks." placeholder:"N"`
	Algorithm string        `default:"timely" help:"Congestion control: timely, dcqcn, swift or none; default ${default}." placeholder:"NAME"`
	Size      int           `default:"32" help:"Bytes in requests and responses; default ${default}." placeholder:"BYTES"`
	Batch     int           `default:"3" help:"RPCs issued together; default ${default}." placeholder:"N"`
	Window    int           `default:"60" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Warmup    time.Duration `default:"500us" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration  time.Duration `default:"1ms" help:"Virtual time that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simScaleCmd) Help() string {
	return `Examples:
  erpc sim scale --threads 1,2
  erpc sim scale --nodes 20 --threads 1,5,10 --duration 5ms
  erpc sim scale --nodes 1000 --threads 1 --peers 20 --spines 8 --window 8
  erpc sim scale --json

Every thread has a client session to every other thread of the cluster. With 100
nodes of 10 threads that makes a million sessions, with two ends each, in this
process: it takes some gigabytes and minutes.`
}

func (c *simScaleCmd) config() (f simlab.ScaleConfig, err error) {
	f = simlab.ScaleConfig{Nodes: c.Nodes, Peers: c.Peers, Spines: c.Spines, Size: c.Size,
		Batch: c.Batch, Window: c.Window,
		Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Threads, err = cli.Numbers("--threads", c.Threads, 1, 32); err != nil {
		return f, err
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "dcqcn", "swift", "none"); err != nil {
		return f, err
	}
	return f, errors.Join(c.check(), cli.Between("--nodes", c.Nodes, 2, 10000),
		cli.Between("--peers", c.Peers, 0, c.Nodes-1), cli.Between("--spines", c.Spines, 0, 64),
		cli.Between("--size", c.Size, 4, 960), cli.Between("--window", c.Window, 1, 1000),
		cli.Between("--batch", c.Batch, 1, max(1, c.Window)), simulated("--warmup", c.Warmup,
			0), simulated("--duration", c.Duration, 10*time.Microsecond))
}

// Run implements the subcommand.
func (c *simScaleCmd) Run(e *cli.Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	c.GC = min(c.GC, 100) // the heap is large and hardly changes
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		res, err := simlab.Scale(e.Ctx, cfg, p)
		for _, row := range res.Rows { // this machine's, not the simulation's: not part of the result
			fmt.Fprintf(e.Err, "%d thread(s): %.0f B of heap and %.0f B of message buffers per end of a "+
				"session, with all of the simulation\n",
				row.Threads, row.Heap, row.Buffers)
		}
		return outcome{&res, len(res.Rows), res.Interrupted,
			func(w io.Writer) { printScale(w, &res) }, func() chart.Chart { return scaleChart(&res) }}, err
	})
}

func printScale(w io.Writer, r *simlab.ScaleResult) {
	fmt.Fprintf(w, "Simulated CX4 cluster of %d nodes: RPCs of %d B between all threads, batches of "+
		"%d, %d in flight per thread, cc %s. Seed %d.\n",
		r.Nodes, r.Size, r.Batch, r.Window, r.Algorithm, r.Seed)
	if r.Peers > 0 {
		fmt.Fprintf(w, "Each thread has sessions to %d of those behind it.\n", r.Peers)
	}
	if r.Spines > 0 {
		fmt.Fprintf(w, "Racks of %d nodes, %d spines.\n", simlab.RackNodes, r.Spines)
	}
	fmt.Fprintf(w, "After a warm-up of %s, %s count. Rates are per node; sessions are client and "+
		"server ends; events of the simulation are per RPC.\n\n", seconds(r.Warmup), seconds(r.Duration))
	t := cli.NewTable(w)
	fmt.Fprintln(t, "threads\tsessions\trate\tsent\tp50\tp99\tp99.9\tp99.99\tsent again\t"+
		"set-up\tevents\tpaper")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%d\t%.2f Mrps\t%.1f Gbit/s\t%.1f us\t%.1f us\t%.1f us\t%.1f us\t%.0f /s\t"+
			"%s\t%.1f\t%s\n", row.Threads, row.Sessions,
			row.Mrps, row.Gbps, row.P50, row.P99, row.P999, row.P9999, row.Retransmits, seconds(
				row.Setup), row.Events, paperScale(row.Paper))
	}
	_ = t.Flush()
}

// paperScale tells what the paper says of a row.
func paperScale(p *simlab.Section63) string {
	switch {
	case p == nil:
		return ""
	case p.Mrps > 0:
		return fmt.Sprintf("%.1f Mrps, p99.99 < %.0f us, sent again < %.0f /s", p.Mrps, p.P9999Below,
			p.RetransmitsBelow)
	}
	return fmt.Sprintf("p50 %.1f us", p.P50)
}

// scaleChart shows latencies by the number of threads.
func scaleChart(r *simlab.ScaleResult) chart.Chart {
	all := []chart.Series{{Name: "p50"}, {Name: "p99"}, {Name: "p99.9"}, {Name: "p99.99"}}
	for _, row := range r.Rows {
		for i, y := range []float64{row.P50, row.P99, row.P999, row.P9999} {
			all[i].Add(float64(row.Threads), y)
		}
	}
	return chart.Chart{Title: fmt.Sprintf("Latency of %d B RPCs on %d nodes, seed %d", r.Size, r.Nodes,
		r.Seed), X: "threads per node", Y: "us", LogY: true, Series: all}
}
