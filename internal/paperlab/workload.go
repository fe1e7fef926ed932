package paperlab

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simWorkloadCmd struct {
	simFlags
	Workload  string        `default:"W3" help:"Sizes of messages: W2, W3, W4 or W5 of Homa; default ${default}." placeholder:"NAME"`
	Algorithm string        `default:"timely,swift,none" help:"Congestion control: timely, dcqcn, swift, cubic, none or several; default ${default}." placeholder:"NAME,..."`
	Load      float64       `default:"0.8" help:"Part of each link that is used on average; default ${default}." placeholder:"PART"`
	Nodes     int           `help:"Nodes at the switch; 0: 16, and 8 for W5, whose messages take gigabytes of memory." placeholder:"N"`
	Credits   int           `help:"Packets in flight per session; 0: as many as the path fills, as without this simulation." placeholder:"N"`
	Warmup    time.Duration `help:"Virtual time before anything counts; 0: a fifth of the duration." placeholder:"TIME"`
	Duration  time.Duration `help:"Virtual time in which the messages begin that count; 0: 20ms for W2, 50ms for W3, 100ms for W4, 500ms for W5." placeholder:"TIME"`
}

// Help is shown by --help.
func (simWorkloadCmd) Help() string {
	return `Examples:
  erpc sim workload
  erpc sim workload --workload W4 --algorithm swift --load 0.5
  erpc sim workload --workload W2 --json

Every node sends requests to the others at random, whether or not earlier ones were
answered, and gets answers of the same size. The sizes are those of Homa (SIGCOMM
2018): W2 search, W3 all of a data center at Google, W4 Hadoop at Facebook, W5 web
search. Slowdown is the time of a message divided by that on an idle network. The
column Homa is what its authors measured, with 8 priorities in the switch.`
}

var workloadDurations = map[string]time.Duration{"W2": 20 * time.Millisecond,
	"W3": 50 * time.Millisecond, "W4": 100 * time.Millisecond, "W5": 500 * time.Millisecond}

// config reads the flags.
func (c *simWorkloadCmd) config() (f simlab.WorkloadConfig, err error) {
	if !slices.Contains(simlab.Workloads, c.Workload) {
		return f, cli.Usagef("--workload %q: want one of %s", c.Workload,
			strings.Join(simlab.Workloads, ", "))
	}
	if c.Duration == 0 {
		c.Duration = workloadDurations[c.Workload]
	}
	if c.Nodes == 0 {
		c.Nodes = 16
		if c.Workload == "W5" {
			c.Nodes = 8
		}
	}
	if c.Warmup == 0 {
		c.Warmup = c.Duration / 5
	}
	if !(c.Load > 0 && c.Load < 1) {
		return f, cli.Usagef("--load %v: want a number above 0 and below 1", c.Load)
	}
	f = simlab.WorkloadConfig{Workload: c.Workload, Load: c.Load, Nodes: c.Nodes, Credits: c.Credits,
		Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Algorithms, err = algorithms(c.Algorithm, "timely", "dcqcn", "swift", "cubic",
		"none"); err != nil {
		return f, err
	}
	return f, errors.Join(c.check(), cli.Between("--nodes", c.Nodes, 2, 200),
		cli.Between("--credits", c.Credits, 0, 4096),
		simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, time.Millisecond))
}

// algorithms reads names of congestion controls, with commas between.
func algorithms(names string, may ...string) (all []erpc.CCAlgorithm, err error) {
	for name := range strings.SplitSeq(names, ",") {
		a, err := algorithm(name, may...)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Run implements the subcommand.
func (c *simWorkloadCmd) Run(e *cli.Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		res, err := simlab.Workload(e.Ctx, cfg, p)
		return outcome{&res, len(res.Rows), res.Interrupted,
			func(w io.Writer) { printWorkload(w, &res) },
			func() chart.Chart { return workloadChart(&res) }}, err
	})
}

func printWorkload(w io.Writer, r *simlab.WorkloadResult) {
	fmt.Fprintf(w, "Homa's workload %s at a load of %.0f %%: %d nodes at a simulated switch of "+
		"10 Gbit/s. Seed %d.\n", r.Workload, 100*r.Load, r.Nodes, r.Seed)
	fmt.Fprintf(w, "After a warm-up of %s, messages of %s count. Slowdown: p50 and p99.\n\n",
		seconds(r.Warmup), seconds(r.Duration))
	t := cli.NewTable(w)
	head := "bytes\tof messages"
	for _, row := range r.Rows {
		head += "\t" + row.CC + " p50\tp99"
	}
	fmt.Fprintln(t, head+"\tHoma p50\tp99")
	for i, s := range r.Rows[0].Sizes {
		line := fmt.Sprintf("%d ... %d\t%.1f %%", s.Least, s.Most, 100*s.Share)
		for _, row := range r.Rows {
			line += fmt.Sprintf("\t%.1f\t%.1f", row.Sizes[i].P50, row.Sizes[i].P99)
		}
		if s.Homa != nil {
			line += fmt.Sprintf("\t%.1f\t%.1f", s.Homa.P50, s.Homa.P99)
		}
		fmt.Fprintln(t, line)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	t = cli.NewTable(w)
	fmt.Fprintln(t, "cc\tmessages\tunfinished\tlinks used\tdeepest queue\tdrops\tsent again")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.0f %%\t%.0f kB\t%d\t%d\n", row.CC, row.Echoes, row.Unfinished,
			100*row.Busy, float64(row.MaxQueue)/1e3, row.Drops, row.Retransmits)
	}
	_ = t.Flush()
}

// workloadChart shows the slowdown by size, ours and Homa's.
func workloadChart(r *simlab.WorkloadResult) chart.Chart {
	c := chart.Chart{Title: fmt.Sprintf("Slowdown of messages, %s at load %.0f %%, seed %d",
		r.Workload, 100*r.Load, r.Seed), X: "bytes", Y: "slowdown", LogX: true, LogY: true}
	homa := chart.Series{Name: "Homa p99", Paper: true}
	for i, row := range r.Rows {
		p99 := chart.Series{Name: row.CC + " p99"}
		for _, s := range row.Sizes {
			p99.Add(float64(s.Most), s.P99)
			if i == 0 && s.Homa != nil {
				homa.Add(float64(s.Most), s.Homa.P99)
			}
		}
		c.Series = append(c.Series, p99)
	}
	c.Series = append(c.Series, homa)
	return c
}
