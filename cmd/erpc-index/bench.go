package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// keyFlags say which keys the servers have.
type keyFlags struct {
	Keys uint64 `default:"1000000" help:"Numbered keys; default ${default}." placeholder:"N"`
	Seed uint64 `default:"1" help:"Which keys these are; default ${default}." placeholder:"N"`
}

func (f *keyFlags) set() (*keyset, error) {
	if f.Keys < 1 || f.Keys > 1<<30 {
		return nil, cli.Usagef("--keys %d: want 1 to %d", f.Keys, 1<<30)
	}
	return &keyset{n: f.Keys, seed: f.Seed}, nil
}

type loadCmd struct {
	clientFlags
	keyFlags
	Depth int `default:"64" help:"PUTs under way; default ${default}." placeholder:"N"`
}

// loadResult is the output of load.
type loadResult struct {
	Keys    uint64  `json:"keys"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"puts_per_second"`
}

// Run implements the subcommand.
func (c *loadCmd) Run(e *cli.Env) error {
	r, err := c.load(e)
	if err != nil {
		return err
	}
	return e.Print(c.JSON, r, "%d keys stored in %.1f s, %.3f M/s", r.Keys, r.Seconds, r.Rate/1e6)
}

func (c *loadCmd) load(e *cli.Env) (r loadResult, err error) {
	keys, err := c.set()
	if err != nil {
		return r, err
	}
	if c.Depth < 1 {
		return r, cli.Usagef("--depth %d: want at least 1", c.Depth)
	}
	d, err := c.connect(e, 8, keys)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	err = d.load(c.Depth, func(n uint64) { fmt.Fprintf(e.Err, "%d of %d keys stored\n", n, keys.n) })
	r = loadResult{Keys: keys.n, Seconds: d.t.seconds()}
	r.Rate = float64(r.Keys) / r.Seconds
	return r, err
}

type benchCmd struct {
	clientFlags
	keyFlags
	Scans       float64       `default:"0.01" help:"Share of scans; ${default}." placeholder:"P"`
	Clients     int           `default:"8" help:"Clients; default ${default}." placeholder:"N"`
	Outstanding int           `default:"2" help:"${outstanding_help}" placeholder:"N"`
	Rate        float64       `help:"${rate_help}" placeholder:"RATE"`
	Each        time.Duration `default:"5s" help:"How long; default ${default}." placeholder:"TIME"`
	Plot        string        `help:"${plot_help}" placeholder:"FILE"`
}

// benchResult is the output of bench; times in microseconds.
type benchResult struct {
	What  string  `json:"what,omitempty"`
	GETs  float64 `json:"gets_per_second"`
	Scans float64 `json:"scans_per_second"`
	Get   quant   `json:"get_us"`
	Scan  quant   `json:"scan_us"`
	Wrong uint64  `json:"wrong_answers"`
	curve []point // of GETs
}

// quant is the distribution of a latency in microseconds.
type quant struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

func quantiles(h *erpc.Histogram) quant {
	us := func(q float64) float64 { return float64(h.Quantile(q)) / 1e3 }
	return quant{us(0.5), us(0.99), us(0.999)}
}

func (t *tally) seconds() float64 { return max(t.end.Sub(t.began).Seconds(), 1e-9) }

// Run implements the subcommand.
func (c *benchCmd) Run(e *cli.Env) error {
	keys, err := c.set()
	if err != nil {
		return err
	}
	if err := checkPlot(c.Plot); err != nil {
		return err
	}
	r, err := c.measure(e, keys)
	if err != nil {
		return err
	}
	if c.Plot != "" {
		if err := savePlot(c.Plot, []curve{{"GETs", r.curve}}); err != nil {
			return err
		}
	}
	if c.JSON {
		return e.Print(true, r, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tper second\tp50\tp99\tp99.9\n")
	const line = "%s\t%.0f\t%.1f us\t%.1f us\t%.1f us\n"
	fmt.Fprintf(w, line, "GET", r.GETs, r.Get.P50, r.Get.P99, r.Get.P999)
	fmt.Fprintf(w, line, "scan", r.Scans, r.Scan.P50, r.Scan.P99, r.Scan.P999)
	return w.Flush()
}

func (c *benchCmd) check() error {
	switch {
	case !(c.Scans >= 0 && c.Scans <= 1):
		return cli.Usagef("--scans %v: want 0 to 1", c.Scans)
	case c.Clients < 1 || c.Clients > 4096:
		return cli.Usagef("--clients %d: want 1 to 4096", c.Clients)
	case c.Outstanding < 1 || c.Outstanding > 4096:
		return cli.Usagef("--outstanding %d: want 1 to 4096", c.Outstanding)
	case !(c.Rate >= 0 && c.Rate < 1e9):
		return cli.Usagef("--rate %v: want at least 0 and less than 1e9", c.Rate)
	case c.Each < time.Millisecond || c.Each > time.Hour:
		return cli.Usagef("--each %v: want 1ms to 1h", c.Each)
	}
	return nil
}

// measure runs the workload. An answer that is not the right one is an error.
func (c *benchCmd) measure(e *cli.Env, keys *keyset) (r benchResult, err error) {
	if err := c.check(); err != nil {
		return r, err
	}
	if c.Scans > 0 && keys.sorted == nil {
		keys.sort()
	}
	d, err := c.connect(e, c.Clients, keys)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.r, d.scans = rand.New(rand.NewPCG(c.Seed, 2)), c.Scans
	d.until = monotime.Now().Add(c.Each)
	if c.Rate > 0 {
		err = d.open(c.Rate)
	} else {
		err = d.closed(c.Clients*c.Outstanding, func() {})
	}
	s := d.t.seconds()
	r = benchResult{GETs: float64(d.t.gets) / s, Scans: float64(d.t.sums) / s, Wrong: d.t.wrong,
		Get: quantiles(&d.t.get), Scan: quantiles(&d.t.sum), curve: curveOf(&d.t.get)}
	if err == nil && r.Wrong > 0 {
		err = fmt.Errorf("%d of %d answers were wrong: did another client change these keys?",
			r.Wrong, d.t.gets+d.t.sums)
	}
	return r, err
}
