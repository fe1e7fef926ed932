package paperlab

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type simLossCmd struct {
	simFlags
	Rates     string        `default:"1e-7,1e-6,1e-5,1e-4,1e-3" help:"Probabilities that a packet is lost; default ${default}." placeholder:"P,..."`
	Algorithm string        `default:"timely" help:"Congestion control: timely, swift, cubic or none; default ${default}." placeholder:"NAME"`
	Size      int           `default:"8388608" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	Credits   int           `default:"32" help:"Packets in flight; default ${default}." placeholder:"N"`
	Seeds     int           `default:"5" help:"Runs per rate, of which the median is printed; default ${default}." placeholder:"N"`
	Warmup    time.Duration `default:"5ms" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration  time.Duration `default:"300ms" help:"Virtual time of a run that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simLossCmd) Help() string {
	return `Examples:
  erpc sim loss
  erpc sim loss --rates 1e-4,1e-3 --seeds 9 --json
  erpc sim loss --plot loss.png

Two nodes at a simulated 100 Gbit/s InfiniBand switch, packets of 4 kB, one request
outstanding. Packets are lost in both directions. A thread takes as much processor
time per packet as gives the paper's bandwidth without loss.`
}

func (c *simLossCmd) config() (f simlab.LossConfig, err error) {
	f = simlab.LossConfig{Size: c.Size, Credits: c.Credits, Seeds: c.Seeds, Warmup: c.Warmup,
		Duration: c.Duration, Seed: c.Seed}
	for part := range strings.SplitSeq(c.Rates, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(p >= 0 && p <= 0.5) {
			return f, cli.Usagef("--rates %q: want probabilities from 0 to 0.5, with commas between",
				c.Rates)
		}
		f.Rates = append(f.Rates, p)
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "swift", "cubic", "none"); err != nil {
		return f, err
	}
	return f, errors.Join(c.check(), largeSize(c.Size), credits(c.Credits),
		cli.Between("--seeds", c.Seeds, 1, 1000),
		simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, time.Millisecond))
}

// Run implements the subcommand.
func (c *simLossCmd) Run(e *cli.Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	return c.run(e, func(p simlab.Progress) (outcome, error) {
		res, err := simlab.Loss(e.Ctx, cfg, p)
		return outcome{&res, len(res.Rows), res.Interrupted,
			func(w io.Writer) { printLoss(w, &res) }, func() chart.Chart { return lossChart(&res) }}, err
	})
}

func printLoss(w io.Writer, r *simlab.LossResult) {
	fmt.Fprintf(w, "Requests of %s over a simulated 100 Gbit/s link that loses packets, one "+
		"outstanding, %d credits, cc %s.\n", cli.BytesText(r.Size), r.Credits, r.Algorithm)
	fmt.Fprintf(w, "Median of %d seeds from %d on, %s each.\n\n", r.Seeds, r.Seed, seconds(r.Duration))
	t := cli.NewTable(w)
	fmt.Fprintln(t, "loss\tgoodput\tof loss-free\tpaper\tof loss-free\tleast and most\tpackets\t"+
		"lost\tsent again")
	for _, row := range r.Rows {
		paper := "\t"
		if row.Paper > 0 {
			paper = fmt.Sprintf("%.3g Gbit/s\t%.0f %%", row.Paper, 100*row.Paper/simlab.PaperLossFree)
		}
		fmt.Fprintf(t, "%g\t%.1f Gbit/s\t%.0f %%\t%s\t%.1f ... %.1f\t%s\t%d\t%d\n", row.Rate, row.Gbps,
			100*row.Share, paper,
			row.Least, row.Most, cli.CountText(float64(row.Packets)), row.Lost, row.Retransmits)
	}
	_ = t.Flush()
}

// lossChart shows the bandwidth by the rate of loss, ours and the paper's.
func lossChart(r *simlab.LossResult) chart.Chart {
	ours, paper := chart.Series{Name: "erpc"}, chart.Series{Name: "paper", Paper: true}
	for _, row := range r.Rows {
		ours.Add(row.Rate, row.Gbps) // the chart leaves out what a logarithm cannot show: rate 0
		if row.Paper > 0 {
			paper.Add(row.Rate, row.Paper)
		}
	}
	return chart.Chart{Title: fmt.Sprintf("Bandwidth of %s requests with loss, seed %d",
		cli.BytesText(r.Size), r.Seed), X: "probability of loss", Y: "Gbit/s",
		LogX: true, LegendLow: true, Series: []chart.Series{ours, paper}}
}
