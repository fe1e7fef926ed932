package paperlab

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/rfplab"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simRfpCmd struct {
	simFlags
	Figure string `default:"process" help:"Which one: ${rfp_figures}." placeholder:"NAME"`
}

// Help is shown by --help.
func (simRfpCmd) Help() string {
	return `Examples:
  erpc sim rfp
  erpc sim rfp --plot rfp.svg
  erpc sim rfp --figure batches --plot batches.svg

Package rfp's clients and server on adapters whose rates the papers on remote
fetching measured, beside what the papers report of whole systems. The inputs,
each with its source, are in rfp/onesided/model/params.go.`
}

// Run implements the subcommand.
func (c *simRfpCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Figure != "process" {
		return c.curve(e, c.Figure, "process", rfplab.CurveNames, rfplab.Curves)
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		rep, err := rfplab.Figures(e.Ctx, c.Seed, p)
		return outcome{&rep, len(rep.Figures), rep.Cut,
			func(w io.Writer) { printRfp(w, &rep) }, func() chart.Chart { return rfpChart(&rep) }}, err
	})
}

// curve runs a figure of curves, one of those that may be; usual is the name of what has no curves.
func (f *simFlags) curve(e *cli.Env, name, usual string, may []string, curves func(context.Context,
	uint64, string, func(string, float64)) (rfplab.Curve, error)) error {
	if !slices.Contains(may, name) {
		return cli.Usagef("--figure %s: want %s, %s", name, usual, strings.Join(may, ", "))
	}
	return f.run(e, func(p simlab.Progress) (outcome, error) {
		cv, err := curves(e.Ctx, f.Seed, name, p)
		return outcome{&cv, len(cv.Lines), cv.Cut, func(w io.Writer) { printCurve(w, &cv) },
			func() chart.Chart { return curveChart(&cv) }}, err
	})
}

// printCurve prints a row for each x, a column for each line.
func printCurve(w io.Writer, c *rfplab.Curve) {
	fmt.Fprintf(w, "%s; %s.\n", c.Title, c.Y)
	rows := map[float64][]string{}
	t := cli.NewTable(w)
	fmt.Fprint(t, c.X)
	for i, l := range c.Lines {
		fmt.Fprint(t, "\t", l.Name)
		for _, p := range l.Points {
			row := rows[p[0]]
			if row == nil {
				row = make([]string, len(c.Lines))
				rows[p[0]] = row
			}
			row[i] = fmt.Sprintf("%.2f", p[1])
		}
	}
	fmt.Fprintln(t)
	for _, x := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(t, "%.4g\t%s\n", x, strings.Join(rows[x], "\t"))
	}
	_ = t.Flush()
}

func curveChart(c *rfplab.Curve) chart.Chart {
	ch := chart.Chart{Title: c.Title, X: c.X, Y: c.Y, LogX: c.LogX}
	for _, l := range c.Lines {
		s := chart.Series{Name: l.Name, Paper: l.Paper}
		for _, p := range l.Points {
			s.Add(p[0], p[1])
		}
		ch.Series = append(ch.Series, s)
	}
	return ch
}

func printRfp(w io.Writer, r *rfplab.Report) {
	printFigures(w, r.Figures)
	fmt.Fprintln(w, "\nBy process time, 16 server threads: calls/s, client time per call.")
	t := cli.NewTable(w)
	fmt.Fprintln(t, "process\tfetch\treply\thybrid\tfetch\treply\thybrid")
	for _, p := range r.Points {
		fmt.Fprintf(t, "%v\t%.2f M/s\t%.2f\t%.2f\t%v\t%v\t%v\n", p.Process,
			p.Fetch/1e6, p.Reply/1e6, p.Hybrid/1e6, p.FetchCPU, p.ReplyCPU, p.HybridCPU)
	}
	_ = t.Flush()
}

// printFigures prints ours, the papers', and what the inputs say by themselves.
func printFigures(w io.Writer, list []rfplab.Figure) {
	t := cli.NewTable(w)
	fmt.Fprintln(t, "\tmodel\tpaper\tinputs alone\t")
	for _, f := range list {
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\t%s\n", f.What, f.Model, given(f.Paper), given(f.Inputs), f.Unit)
	}
	_ = t.Flush()
}

// given formats a figure, 0: there is none.
func given(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

func rfpChart(r *rfplab.Report) chart.Chart {
	f, p := chart.Series{Name: "fetch"}, chart.Series{Name: "reply, one at a time"}
	h := chart.Series{Name: "hybrid"}
	for _, q := range r.Points {
		x := float64(q.Process) / 1e3
		f.Add(x, q.Fetch/1e6)
		p.Add(x, q.Reply/1e6)
		h.Add(x, q.Hybrid/1e6)
	}
	return chart.Chart{Title: "Calls by process time, 16 server threads, 35 clients",
		X: "process time, us", Y: "M/s", LegendLow: true, Series: []chart.Series{f, p, h}}
}
