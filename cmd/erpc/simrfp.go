package main

import (
	"fmt"
	"io"

	"github.com/userspace-rpc/erpc/cmd/erpc/rfplab"
	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
)

type simRfpCmd struct{ simFlags }

// Help is shown by --help.
func (simRfpCmd) Help() string {
	return `Examples:
  erpc sim rfp
  erpc sim rfp --plot rfp.svg

Package rfp's clients and server on adapters whose rates the papers on remote
fetching measured, beside what the papers report of whole systems. The inputs,
each with its source, are in rfp/onesided/model/params.go.`
}

// Run implements the subcommand.
func (c *simRfpCmd) Run(e *env) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		rep, err := rfplab.Figures(e.ctx, c.Seed, p)
		return outcome{&rep, len(rep.Figures), rep.Cut,
			func(w io.Writer) { printRfp(w, &rep) }, func() chart { return rfpChart(&rep) }}, err
	})
}

func printRfp(w io.Writer, r *rfplab.Report) {
	t := table(w)
	fmt.Fprintln(t, "\tmodel\tpaper\t")
	for _, f := range r.Figures {
		paper := ""
		if f.Paper != 0 {
			paper = fmt.Sprintf("%.2f", f.Paper)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%s\n", f.What, f.Model, paper, f.Unit)
	}
	_ = t.Flush()
	fmt.Fprintln(w, "\nBy process time, 16 server threads: calls/s, client time per call.")
	t = table(w)
	fmt.Fprintln(t, "process\tfetch\treply\thybrid\tfetch\treply\thybrid")
	for _, p := range r.Points {
		fmt.Fprintf(t, "%v\t%.2f M/s\t%.2f\t%.2f\t%v\t%v\t%v\n", p.Process,
			p.Fetch/1e6, p.Reply/1e6, p.Hybrid/1e6, p.FetchCPU, p.ReplyCPU, p.HybridCPU)
	}
	_ = t.Flush()
}

func rfpChart(r *rfplab.Report) chart {
	f, p, h := series{name: "fetch"}, series{name: "reply, one at a time"}, series{name: "hybrid"}
	for _, q := range r.Points {
		x := float64(q.Process) / 1e3
		f.add(x, q.Fetch/1e6)
		p.add(x, q.Reply/1e6)
		h.add(x, q.Hybrid/1e6)
	}
	return chart{title: "Calls by process time, 16 server threads, 35 clients", x: "process time, us",
		y: "M/s", legendLow: true, series: []series{f, p, h}}
}
