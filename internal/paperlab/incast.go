package paperlab

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simIncastCmd struct {
	simFlags
	Degree     string        `default:"20,50,100" help:"Numbers of clients; default ${default}." placeholder:"N,..."`
	CC         string        `name:"cc" default:"on,off" help:"With congestion control, without, or both: on, off; default ${default}." placeholder:"on,off"`
	Algorithm  string        `default:"timely" help:"What is on: timely, dcqcn, swift or cubic; default ${default}." placeholder:"NAME"`
	Size       int           `default:"8388608" help:"Bytes in a large message; default ${default}." placeholder:"BYTES"`
	Credits    int           `default:"32" help:"Packets in flight per session; default ${default}." placeholder:"N"`
	Reverse    bool          `help:"The victim asks all others for large responses."`
	Background bool          `help:"One more thread on each node but the victim's: RPCs of 64 kB both ways among each other. Slow: give one --degree."`
	Fairness   bool          `default:"true" negatable:"" help:"Also measure how flows share the link; on unless --cc is off alone."`
	Warmup     time.Duration `default:"20ms" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration   time.Duration `help:"Virtual time that counts; 0: 100ms, with --background 20ms." placeholder:"TIME"`
}

// Help is shown by --help.
func (simIncastCmd) Help() string {
	return `Examples:
  erpc sim incast
  erpc sim incast --degree 50 --algorithm dcqcn --json
  erpc sim incast --degree 100 --background
  erpc sim incast --plot incast.svg

The cluster is the paper's CX4, simulated: 25 Gbit/s links, five racks, switches
with 12 MB of shared buffer, round trips of 6 us across racks. For dcqcn the
switches mark packets from 40 kB of queue on, all from 160 kB on.`
}

// config reads the flags.
func (c *simIncastCmd) config() (f simlab.IncastConfig, err error) {
	if c.Duration == 0 {
		c.Duration = 100 * time.Millisecond
		if c.Background {
			c.Duration = 20 * time.Millisecond
		}
	}
	f = simlab.IncastConfig{Size: c.Size, Credits: c.Credits, Reverse: c.Reverse,
		Background: c.Background,
		Warmup:     c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Degrees, err = cli.Numbers("--degree", c.Degree, 1, 1000); err != nil {
		return f, err
	}
	for part := range strings.SplitSeq(c.CC, ",") {
		switch part {
		case "on", "off":
			f.CC = append(f.CC, part == "on")
		default:
			return f, cli.Usagef("--cc %q: want on, off or both with a comma between", c.CC)
		}
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "dcqcn", "swift", "cubic"); err != nil {
		return f, err
	}
	return f, errors.Join(c.check(), largeSize(c.Size), credits(c.Credits),
		simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, time.Millisecond))
}

// Run implements the subcommand.
func (c *simIncastCmd) Run(e *cli.Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		res, err := simlab.Incast(e.Ctx, cfg, p)
		if err == nil && c.Fairness && c.CC != "off" && !res.Interrupted {
			err = fairness(e, cfg, &res, p)
		}
		return outcome{&res, len(res.Rows), res.Interrupted,
			func(w io.Writer) { printIncast(w, &res) }, func() chart.Chart { return incastChart(&res) }}, err
	})
}

// fairness adds how flows share the link.
func fairness(e *cli.Env, cfg simlab.IncastConfig, res *simlab.IncastResult,
	p simlab.Progress) error {
	f, err := simlab.Fairness(e.Ctx, cfg, cfg.Algorithm, p)
	switch {
	case err == nil:
		res.Fairness = &f
	case e.Ctx.Err() != nil && errors.Is(err, e.Ctx.Err()):
		res.Interrupted, err = true, nil
	}
	return err
}

func printIncast(w io.Writer, r *simlab.IncastResult) {
	what := "send requests"
	if r.Reverse {
		what = "are asked for responses"
	}
	fmt.Fprintf(w, "Incast on a simulated CX4 cluster: clients %s of %s, one outstanding each, %d "+
		"credits. Seed %d.\n",
		what, cli.BytesText(r.Size), r.Credits, r.Seed)
	fmt.Fprintf(w, "After a warm-up of %s, %s count. RTT is that of each packet; the switch queue "+
		"is the victim's.\n\n", seconds(r.Warmup), seconds(r.Duration))
	t := cli.NewTable(w)
	fmt.Fprintln(t, "clients\tcc\tgoodput\tRTT p50\tp99\tpaper\tp50\tp99\tJain\tdeepest queue\t"+
		"drops\tsent again")
	for _, row := range r.Rows {
		paper := "\t\t"
		if p := row.Paper; p != nil {
			paper = fmt.Sprintf("%.1f Gbit/s\t%.0f us\t%.0f us", p.Gbps, p.P50, p.P99)
		}
		fmt.Fprintf(t, "%d\t%s\t%.1f Gbit/s\t%.0f us\t%.0f us\t%s\t%.3f\t%.0f kB\t%d\t%d\n", row.Degree,
			row.CC, row.Gbps, row.P50, row.P99,
			paper, row.Jain, float64(row.MaxQueue)/1e3, row.Drops, row.Retransmits)
	}
	_ = t.Flush()
	printPairs(w, r)
	for _, row := range r.Rows {
		if b := row.Background; b != nil {
			paper := ""
			if row.Degree == 100 && row.CC != "none" {
				paper = fmt.Sprintf(" (paper %.0f)", simlab.PaperBackgroundP99)
			}
			fmt.Fprintf(w, "Background RPCs of 64 kB both ways, incast of %d, cc %s: p50 %.0f us, p99 "+
				"%.0f us%s; %d RPCs.\n", row.Degree, row.CC, b.P50, b.P99, paper, b.Rpcs)
		}
	}
	if f := r.Fairness; f != nil {
		printFairness(w, f)
	}
}

// printPairs says what congestion control brings, and costs.
func printPairs(w io.Writer, r *simlab.IncastResult) {
	if len(r.Pairs) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w)
	fmt.Fprintf(t, "%s against none\tRTT p50 lower\tpaper\tRTT p99 lower\tpaper\tof the bandwidth "+
		"without\tpaper\n", r.Algorithm)
	for _, p := range r.Pairs {
		paper := [3]string{}
		if q := p.Paper; q != nil {
			paper = [3]string{fmt.Sprintf("%.1fx", q.P50), fmt.Sprintf("%.1fx", q.P99),
				fmt.Sprintf("%.0f %%", 100*q.Share)}
		}
		fmt.Fprintf(t, "%d clients\t%.1fx\t%s\t%.1fx\t%s\t%.0f %%\t%s\n", p.Degree, p.P50, paper[0],
			p.P99, paper[1], 100*p.Share, paper[2])
	}
	_ = t.Flush()
}

func printFairness(w io.Writer, f *simlab.FairnessResult) {
	fmt.Fprintf(w, "\nFairness, cc %s: Jain index of %d flows in windows of %s: mean %.3f, "+
		"least %.3f.\n", f.CC, f.Flows, seconds(f.Window), f.Jain, f.JainMin)
	fmt.Fprintf(w, "A second flow that starts %s after the first, slowed to 1/16 of the link: ",
		seconds(f.Late))
	if f.Settled == nil {
		fmt.Fprintf(w, "rates not within 20 %% of each other for good in %s.\n", seconds(f.Watched))
		return
	}
	fmt.Fprintf(w, "rates within 20 %% of each other for good after %s (windows of %s).\n",
		seconds(*f.Settled), seconds(f.LateWindow))
}

// incastChart shows RTTs by degree, ours and the paper's.
func incastChart(r *simlab.IncastResult) chart.Chart {
	c := chart.Chart{Title: fmt.Sprintf("RTT of packets during incast, seed %d", r.Seed), X: "clients",
		Y: "us", LogY: true}
	for _, on := range []bool{true, false} {
		name := "no cc"
		if on {
			name = r.Algorithm
		}
		p50, p99 := chart.Series{Name: name + " p50"}, chart.Series{Name: name + " p99"}
		paper50, paper99 := chart.Series{Name: "paper: " + name + " p50", Paper: true},
			chart.Series{Name: "paper: " + name + " p99", Paper: true}
		for _, row := range r.Rows {
			if (row.CC != "none") != on {
				continue
			}
			x := float64(row.Degree)
			p50.Add(x, row.P50)
			p99.Add(x, row.P99)
			if q := row.Paper; q != nil && (!on || r.Algorithm == erpc.CCTimely.String()) {
				paper50.Add(x, q.P50)
				paper99.Add(x, q.P99)
			}
		}
		c.Series = append(c.Series, p50, paper50, p99, paper99)
	}
	return c
}
