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
	"github.com/userspace-rpc/erpc/kv/mica"
)

// keyFlags choose keys and values.
type keyFlags struct {
	Keys  uint64 `default:"1000000" help:"Keys; default ${default}." placeholder:"N"`
	Seed  uint64 `default:"1" help:"Seed of keys and choices; default ${default}." placeholder:"N"`
	Value int    `default:"32" help:"Size of a value in bytes; default ${default}." placeholder:"SIZE"`
}

func (f *keyFlags) set() (*keyset, error) {
	switch {
	case f.Keys < 1 || f.Keys > 1<<32:
		return nil, cli.Usagef("--keys %d: want 1 to 2^32", f.Keys)
	case f.Value < 4 || f.Value > mica.MaxValue:
		return nil, cli.Usagef("--value %d: want 4 to %d", f.Value, mica.MaxValue)
	}
	return &keyset{f.Keys, f.Seed, f.Value}, nil
}

type loadCmd struct {
	clientFlags
	designFlags
	keyFlags
	Depth int `default:"64" help:"PUTs under way; default ${default}." placeholder:"N"`
}

// loadResult is the output of load.
type loadResult struct {
	Keys    uint64  `json:"keys"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"keys_per_second"`
}

// Run implements the subcommand.
func (c *loadCmd) Run(e *cli.Env) error {
	r, err := c.load(e)
	if err != nil {
		return err
	}
	return e.Print(c.JSON, r, "%d keys in %.2f s: %.0f per second", r.Keys, r.Seconds, r.Rate)
}

func (c *loadCmd) load(e *cli.Env) (r loadResult, err error) {
	keys, err := c.set()
	if err != nil {
		return r, err
	}
	if c.Depth < 1 {
		return r, cli.Usagef("--depth %d: want at least 1", c.Depth)
	}
	d, err := connect(e, &c.clientFlags, &c.designFlags, c.Depth, keys)
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
	designFlags
	keyFlags
	Gets        float64       `default:"0.95" help:"Share of GETs; ${default}." placeholder:"P"`
	Zipf        float64       `default:"0" help:"${zipf_help}" placeholder:"THETA"`
	Outstanding int           `default:"64" help:"${outstanding_help}" placeholder:"N"`
	Rate        float64       `help:"${rate_help}" placeholder:"RATE"`
	Each        time.Duration `default:"5s" help:"How long; default ${default}." placeholder:"TIME"`
}

// benchResult is the output of bench; times in microseconds.
type benchResult struct {
	What    string  `json:"what,omitempty"`
	Rate    float64 `json:"operations_per_second"`
	GETs    uint64  `json:"gets"`
	PUTs    uint64  `json:"puts"`
	Missing uint64  `json:"missing"` // GETs of keys that are not there
	Wrong   uint64  `json:"wrong_answers"`
	Get     quant   `json:"get_us"`
	Put     quant   `json:"put_us"`
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
	r, err := c.measure(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.Print(true, r, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%.0f per second\tcount\tp50\tp99\tp99.9\n", r.Rate)
	const line = "%s\t%d\t%.1f us\t%.1f us\t%.1f us\n"
	fmt.Fprintf(w, line, "GET", r.GETs, r.Get.P50, r.Get.P99, r.Get.P999)
	fmt.Fprintf(w, line, "PUT", r.PUTs, r.Put.P50, r.Put.P99, r.Put.P999)
	fmt.Fprintf(w, "missing\t%d\n", r.Missing)
	return w.Flush()
}

func (c *benchCmd) check() error {
	switch {
	case !(c.Gets >= 0 && c.Gets <= 1):
		return cli.Usagef("--gets %v: want 0 to 1", c.Gets)
	case !(c.Zipf >= 0 && c.Zipf <= 0.999):
		return cli.Usagef("--zipf %v: want 0 to 0.999", c.Zipf)
	case c.Outstanding < 1 || c.Outstanding > 4096:
		return cli.Usagef("--outstanding %d: want 1 to 4096", c.Outstanding)
	case !(c.Rate >= 0 && c.Rate < 1e9) || c.Each < time.Millisecond || c.Each > time.Hour:
		return cli.Usagef("--rate %v, --each %v: want up to 1e9, and 1ms to 1h", c.Rate, c.Each)
	}
	return nil
}

// measure runs the workload. An answer that is not the right one is an error.
func (c *benchCmd) measure(e *cli.Env) (r benchResult, err error) {
	if err := c.check(); err != nil {
		return r, err
	}
	keys, err := c.set()
	if err != nil {
		return r, err
	}
	z := newZipf(keys.n, c.Zipf)
	d, err := connect(e, &c.clientFlags, &c.designFlags, c.Outstanding, keys)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.r, d.zipf, d.gets = rand.New(rand.NewPCG(c.Seed, 2)), z, c.Gets
	d.until = monotime.Now().Add(c.Each)
	if c.Rate > 0 {
		err = d.open(c.Rate)
	} else {
		err = d.closed(c.Outstanding, func() {})
	}
	r = benchResult{Rate: float64(d.t.gets+d.t.puts) / d.t.seconds(), GETs: d.t.gets, PUTs: d.t.puts,
		Missing: d.t.missing, Wrong: d.t.wrong, Get: quantiles(&d.t.get), Put: quantiles(&d.t.put)}
	if err == nil && r.Wrong > 0 {
		err = fmt.Errorf("%d of %d answers were wrong: were other values put there?", r.Wrong, r.GETs)
	}
	return r, err
}
