package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/internal/paperlab/simindex"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simCmd struct {
	Keys int           `default:"1000000" help:"Keys; ${default}." placeholder:"N"`
	Each time.Duration `default:"10ms" help:"Virtual time per row; ${default}." placeholder:"TIME"`
	Seed uint64        `default:"1" help:"Random seed; ${default}." placeholder:"N"`
	Plot string        `help:"${plot_help}" placeholder:"FILE"`
	JSON bool          `name:"json" help:"Print one JSON object."`
}

// simRow is a row of the experiment. Times are microseconds.
type simRow struct {
	Model string  `json:"service_times"`
	What  string  `json:"what"`
	GETs  float64 `json:"gets_per_s"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Busy  float64 `json:"workers_busy"`
	Paper string  `json:"paper_p99,omitempty"`
}

// Run implements the subcommand.
func (c *simCmd) Run(e *cli.Env) error {
	if c.Keys < 1 || c.Keys > 100_000_000 {
		return cli.Usagef("--keys %d: want 1 to 100000000", c.Keys)
	}
	if c.Each < 100*time.Microsecond || c.Each > time.Second {
		return cli.Usagef("--each %v: want 100us to 1s", c.Each)
	}
	if err := checkPlot(c.Plot); err != nil {
		return err
	}
	var rows []simRow
	var curves []curve
	for _, m := range []simindex.Model{simindex.Paper, simindex.Here} {
		for _, k := range []struct {
			what                      string
			loops, workers, cli, each int
			scans                     float64
		}{{rowLow, 14, 2, 1, 1, 0}, {rowNone, 14, 2, 64, 2, 0}, {rowWorkers, 14, 2, 64, 2, 0.01},
			{rowLoop, 16, 0, 64, 2, 0.01}} {
			if err := e.Ctx.Err(); err != nil {
				return err
			}
			fmt.Fprintf(e.Err, "%s, %s\n", m.Name, k.what)
			r, err := simindex.Run(simindex.Config{Model: m, Seed: c.Seed, Keys: c.Keys,
				Loops: k.loops, Workers: k.workers, Clients: k.cli, Outstanding: k.each,
				Scans: k.scans, Warmup: time.Millisecond, Time: c.Each})
			if err != nil {
				return err
			}
			row := simRow{Model: m.Name, What: k.what, GETs: r.Rate, Busy: r.Busy,
				P50: float64(r.Get.Quantile(.5)) / 1e3, P99: float64(r.Get.Quantile(.99)) / 1e3}
			if m.Name == simindex.Paper.Name {
				row.Paper = paper[k.what]
			}
			rows = append(rows, row)
			curves = append(curves, curve{m.Name + ", " + k.what, curveOf(&r.Get)})
		}
	}
	if c.Plot != "" {
		if err := savePlot(c.Plot, curves); err != nil {
			return err
		}
	}
	if c.JSON {
		return e.Print(true, rows, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "service times\t16 cores, %d keys\tGET/s\tp50\tp99\tworkers busy\t"+
		"the paper's p99\n", c.Keys)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%.1f M\t%.1f us\t%.1f us\t%.2f\t%s\n", r.Model, r.What, r.GETs/1e6,
			r.P50, r.P99, r.Busy, r.Paper)
	}
	return w.Flush()
}
