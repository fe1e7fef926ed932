package paperlab

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/internal/paperlab/waitlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simWaitingCmd struct {
	simFlags
	Cores    int           `default:"40" help:"Cores of the server; default ${default}, the paper's." placeholder:"N"`
	Conns    string        `default:"1,2,4,8,16,32,40,64,96,128" help:"Connections; default ${default}." placeholder:"N,..."`
	Duration time.Duration `default:"48ms" help:"Virtual time that counts, after as much that does not; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simWaitingCmd) Help() string {
	return `Examples:
  erpc sim waiting
  erpc sim waiting --cores 2 --conns 1,4,16
  erpc sim waiting --plot waiting.svg

Ways of waiting for requests beside the figures of the RR-Compound paper: a
spinning thread for each connection (BP), spinning threads that share them
(BPTS), threads asleep on descriptors (EVENT), pollers that wake workers (BPEV),
and the adaptive policy of this library's loops. The costs, each with its source,
are in internal/paperlab/waitlab/costs.go.`
}

// Run implements the subcommand.
func (c *simWaitingCmd) Run(e *cli.Env) error {
	conns, err := cli.Numbers("--conns", c.Conns, 1, 4096)
	if err = errors.Join(err, c.check(), cli.Between("--cores", c.Cores, 2, 1024),
		simulated("--duration", c.Duration, time.Millisecond)); err != nil {
		return err
	}
	g := waitlab.DefaultGrid()
	g.Costs, g.Conns, g.Span, g.Seed = waitlab.Machine(c.Cores), conns, c.Duration, c.Seed
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		rep, err := waitlab.Figures(e.Ctx, g, p)
		return outcome{&rep, len(rep.Rows), rep.Cut,
			func(w io.Writer) { printWaiting(w, &rep) },
			func() chart.Chart { return waitingChart(&rep) }}, err
	})
}

func printWaiting(w io.Writer, r *waitlab.Report) {
	fmt.Fprintf(w, "%d virtual cores, calls as in the paper's figure 8. CPU in cores.\n", r.Cores)
	last := time.Duration(-1)
	t := cli.NewTable(w)
	for _, row := range r.Rows {
		if row.Pause != last {
			last = row.Pause
			_ = t.Flush()
			name := "continuous"
			if row.Pause > 0 {
				name = fmt.Sprintf("%v between calls", row.Pause)
			}
			fmt.Fprintf(w, "\nClients %s:\n", name)
			fmt.Fprintln(t, "conns\tmode\tk/s\tp50\tp99\tCPU\tspun\tidle CPU\twake-ups per call")
		}
		for m, x := range row.Results {
			fmt.Fprintf(t, "%d\t%s\t%.1f\t%.1f us\t%.1f us\t%.2f\t%.2f\t%.2f\t%.2f\n",
				row.Conns, r.Modes[m], x.Rate/1e3, micros(x.P50), micros(x.P99), x.CPU, x.Spun, x.Idle, x.Wakes)
		}
		fmt.Fprintf(t, "\tBPEV to the better of BP and EVENT %.2f, adaptive to the best %.2f\n",
			row.BPEVShare(), row.AdaptiveShare())
	}
	_ = t.Flush()
	fmt.Fprintln(w, "\nBPEV's spin time, one client, calls as in figure 13:")
	t = cli.NewTable(w)
	fmt.Fprintln(t, "spin\tk/s\tp50\tCPU")
	for _, s := range r.Spins {
		fmt.Fprintf(t, "%v\t%.1f\t%.2f us\t%.2f\n", s.For, s.Rate/1e3, micros(s.P50), s.CPU)
	}
	_ = t.Flush()
	if len(r.Figures) == 0 {
		return
	}
	fmt.Fprintln(w)
	t = cli.NewTable(w)
	fmt.Fprintln(t, "\tmodel\tpaper\t")
	for _, f := range r.Figures {
		sign := ""
		if f.Below {
			sign = "< "
		} else if f.Above {
			sign = "> "
		}
		fmt.Fprintf(t, "%s\t%.1f\t%s%.1f\t%s\n", f.What, f.Model, sign, f.Paper, f.Unit)
	}
	_ = t.Flush()
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// waitingChart draws the rates of clients without a pause, and the paper's.
func waitingChart(r *waitlab.Report) chart.Chart {
	c := chart.Chart{Title: fmt.Sprintf("Calls by connections, %d cores, continuous", r.Cores),
		X: "connections", Y: "k/s", LogX: true}
	for m, name := range r.Modes {
		s, paper := chart.Series{Name: name}, chart.Series{Name: name + ", paper", Paper: true}
		for _, row := range r.Rows {
			if row.Pause == 0 {
				s.Add(float64(row.Conns), row.Results[m].Rate/1e3)
			}
		}
		c.Series = append(c.Series, s)
		for _, p := range waitlab.PaperRates() {
			if p.Pause == 0 && int(p.Mode) == m && len(r.Figures) > 0 {
				paper.Add(float64(p.Conns), p.Rate)
			}
		}
		if len(paper.Points) > 0 {
			c.Series = append(c.Series, paper)
		}
	}
	return c
}
