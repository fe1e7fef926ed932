package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
)

type simLossCmd struct {
	simFlags
	Rates     string        `default:"1e-7,1e-6,1e-5,1e-4,1e-3" help:"Probabilities that a packet is lost; default ${default}." placeholder:"P,..."`
	Algorithm string        `default:"timely" help:"Congestion control: timely or none; default ${default}." placeholder:"NAME"`
	Size      int           `default:"8388608" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	Credits   int           `default:"32" help:"Packets in flight; default ${default}." placeholder:"N"`
	Seeds     int           `default:"3" help:"Runs per rate, of which the median is printed; default ${default}." placeholder:"N"`
	Warmup    time.Duration `default:"5ms" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration  time.Duration `default:"200ms" help:"Virtual time of a run that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simLossCmd) Help() string {
	return `Examples:
  erpc sim loss
  erpc sim loss --rates 1e-4,1e-3 --seeds 5 --json
  erpc sim loss --plot loss.png

Two nodes at a simulated 100 Gbit/s InfiniBand switch, packets of 4 kB, one request
outstanding. Packets are lost in both directions.`
}

func (c *simLossCmd) config() (f simlab.LossConfig, err error) {
	f = simlab.LossConfig{Size: c.Size, Credits: c.Credits, Seeds: c.Seeds, Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	for part := range strings.SplitSeq(c.Rates, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(p >= 0 && p <= 0.5) {
			return f, usagef("--rates %q: want probabilities from 0 to 0.5, with commas between", c.Rates)
		}
		f.Rates = append(f.Rates, p)
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "none"); err != nil {
		return f, err
	}
	return f, errors.Join(largeSize(c.Size), between("--credits", c.Credits, 1, 4096), between("--seeds", c.Seeds, 1, 1000),
		simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, time.Millisecond))
}

// Run implements the subcommand.
func (c *simLossCmd) Run(e *env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	debug.SetGCPercent(c.GC)
	stopProfile, err := startProfile(c.Profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	res, err := simlab.Loss(e.ctx, cfg, newProgress(e).tell)
	if err != nil {
		return err
	}
	if len(res.Rows) == 0 {
		return errStopped
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(res)
	}
	return printLoss(e.out, &res)
}

func printLoss(w io.Writer, r *simlab.LossResult) error {
	t := table(w)
	fmt.Fprintln(t, "loss\tgoodput\tof loss-free\tpaper\tof loss-free\tpackets\tlost\tsent again")
	for _, row := range r.Rows {
		paper := "\t"
		if row.Paper > 0 {
			paper = fmt.Sprintf("%.3g Gbit/s\t%.0f %%", row.Paper, 100*row.Paper/simlab.PaperLossFree)
		}
		fmt.Fprintf(t, "%g\t%.1f Gbit/s\t%.0f %%\t%s\t%s\t%d\t%d\n", row.Rate, row.Gbps, 100*row.Share, paper, countText(float64(row.Packets)),
			row.Lost, row.Retransmits)
	}
	return t.Flush()
}
