package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
)

type simIncastCmd struct {
	simFlags
	Degree     string        `default:"20,50,100" help:"Numbers of clients; default ${default}." placeholder:"N,..."`
	CC         string        `name:"cc" default:"on,off" help:"With congestion control, without, or both: on, off; default ${default}." placeholder:"on,off"`
	Algorithm  string        `default:"timely" help:"What is on: timely or dcqcn; default ${default}." placeholder:"NAME"`
	Size       int           `default:"8388608" help:"Bytes in a large message; default ${default}." placeholder:"BYTES"`
	Credits    int           `default:"32" help:"Packets in flight per session; default ${default}." placeholder:"N"`
	Reverse    bool          `help:"The victim asks all others for large responses."`
	Background bool          `help:"One more thread on each node but the victim's: RPCs of 64 kB both ways among each other."`
	Warmup     time.Duration `default:"20ms" help:"Virtual time before anything counts; default ${default}." placeholder:"TIME"`
	Duration   time.Duration `default:"100ms" help:"Virtual time that counts; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (simIncastCmd) Help() string {
	return `Examples:
  erpc sim incast
  erpc sim incast --degree 50 --algorithm dcqcn --json
  erpc sim incast --degree 100 --background
  erpc sim incast --plot incast.svg

The cluster is the paper's CX4, simulated: 25 Gbit/s links, five racks, switches
with 12 MB of shared buffer, round trips of 6 us across racks.`
}

// config reads the flags.
func (c *simIncastCmd) config() (f simlab.IncastConfig, err error) {
	f = simlab.IncastConfig{Size: c.Size, Credits: c.Credits, Reverse: c.Reverse, Background: c.Background,
		Warmup: c.Warmup, Duration: c.Duration, Seed: c.Seed}
	if f.Degrees, err = numbers("--degree", c.Degree, 1, 1000); err != nil {
		return f, err
	}
	for part := range strings.SplitSeq(c.CC, ",") {
		switch part {
		case "on", "off":
			f.CC = append(f.CC, part == "on")
		default:
			return f, usagef("--cc %q: want on, off or both with a comma between", c.CC)
		}
	}
	if f.Algorithm, err = algorithm(c.Algorithm, "timely", "dcqcn"); err != nil {
		return f, err
	}
	return f, errors.Join(largeSize(c.Size), between("--credits", c.Credits, 1, 4096),
		simulated("--warmup", c.Warmup, 0), simulated("--duration", c.Duration, time.Millisecond))
}

// Run implements the subcommand.
func (c *simIncastCmd) Run(e *env) error {
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
	res, err := simlab.Incast(e.ctx, cfg, newProgress(e).tell)
	if err != nil {
		return err
	}
	if len(res.Rows) == 0 {
		return errStopped
	}
	if c.JSON {
		return json.NewEncoder(e.out).Encode(res)
	}
	return printIncast(e.out, &res)
}

func printIncast(w io.Writer, r *simlab.IncastResult) error {
	t := table(w)
	fmt.Fprintln(t, "clients\tcc\tgoodput\tRTT p50\tp99\tpaper: goodput\tp50\tp99\tJain\tdeepest queue\tdrops\tsent again")
	for _, row := range r.Rows {
		paper := "\t\t"
		if p := row.Paper; p != nil {
			paper = fmt.Sprintf("%.1f Gbit/s\t%.0f us\t%.0f us", p.Gbps, p.P50, p.P99)
		}
		fmt.Fprintf(t, "%d\t%s\t%.1f Gbit/s\t%.0f us\t%.0f us\t%s\t%.3f\t%.0f kB\t%d\t%d\n", row.Degree, row.CC, row.Gbps, row.P50, row.P99, paper,
			row.Jain, float64(row.MaxQueue)/1e3, row.Drops, row.Retransmits)
	}
	return t.Flush()
}
