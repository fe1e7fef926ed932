package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type plotsCmd struct {
	netFlags
	Out         string        `default:"out/kv" help:"Folder; ${default}." placeholder:"DIR"`
	Keys        uint64        `default:"100000" help:"Keys; default ${default}." placeholder:"N"`
	Outstanding int           `default:"64" help:"${outstanding_help}" placeholder:"N"`
	Each        time.Duration `default:"1s" help:"Time of a point; ${default}." placeholder:"TIME"`
}

// sizes are the values of HERD's figure 10, in bytes, and loads are shares of the greatest rate.
var (
	sizes = []int{4, 8, 16, 32, 64, 128, 256, 512, 1024}
	loads = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// sizePoint is the throughput with values of a size.
type sizePoint struct {
	Value int     `json:"value_bytes"`
	Reads float64 `json:"operations_per_second_95"` // with 95 % GETs
	Mixed float64 `json:"operations_per_second_50"`
}

// loadPoint is the latency of GETs that arrive at random.
type loadPoint struct {
	Offered float64 `json:"offered_per_second"`
	Rate    float64 `json:"operations_per_second"`
	Get     quant   `json:"get_us"`
}

// plotsResult is the output with --json.
type plotsResult struct {
	Sizes []sizePoint `json:"sizes"`
	Loads []loadPoint `json:"loads"`
}

// Run implements the subcommand.
func (c *plotsCmd) Run(e *cli.Env) error {
	switch {
	case c.Keys < 1 || c.Keys > 1<<24:
		return cli.Usagef("--keys %d: want 1 to 2^24", c.Keys)
	case c.Each < time.Millisecond || c.Each > time.Minute:
		return cli.Usagef("--each %v: want 1ms to 1m", c.Each)
	}
	var r plotsResult
	for _, n := range sizes {
		if err := c.size(e, n, &r); err != nil {
			return err
		}
		fmt.Fprintf(e.Err, "values of %d bytes: measured\n", n)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	if err := errors.Join(r.drawSizes(c.Out), r.drawLoads(c.Out)); err != nil {
		return err
	}
	if c.JSON {
		return e.Print(true, r, "")
	}
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "value\t95 %% GETs\t50 %%\n")
	for _, p := range r.Sizes {
		fmt.Fprintf(w, "%d B\t%.3f M/s\t%.3f M/s\n", p.Value, p.Reads/1e6, p.Mixed/1e6)
	}
	fmt.Fprintf(w, "offered\tdone\tGET p50\tp99\n")
	for _, p := range r.Loads {
		fmt.Fprintf(w, "%.3f M/s\t%.3f M/s\t%.1f us\t%.1f us\n", p.Offered/1e6, p.Rate/1e6,
			p.Get.P50, p.Get.P99)
	}
	return w.Flush()
}

// size starts a server, fills it with values of n bytes, and measures it; with values of 32 bytes,
// the paper's, its latencies too.
func (c *plotsCmd) size(e *cli.Env, n int, r *plotsResult) (err error) {
	keys := keyFlags{Keys: c.Keys, Seed: 1, Value: n}
	memory := int(c.Keys)*(n+128)>>20*2 + 16
	s, addr, err := (&demoCmd{netFlags: c.netFlags, keyFlags: keys, Memory: memory}).start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	flags := clientFlags{netFlags: c.netFlags, Servers: []string{addr}, Timeout: 10 * time.Second}
	by := designFlags{Design: "erpc"}
	quiet := &cli.Env{Ctx: e.Ctx, In: e.In, Out: e.Out, Err: io.Discard}
	load := loadCmd{clientFlags: flags, designFlags: by, keyFlags: keys, Depth: 64}
	if _, err := load.load(quiet); err != nil {
		return err
	}
	bench := benchCmd{clientFlags: flags, designFlags: by, keyFlags: keys, Outstanding: c.Outstanding,
		Each: c.Each}
	p := sizePoint{Value: n}
	for share, rate := range map[float64]*float64{0.95: &p.Reads, 0.5: &p.Mixed} {
		bench.Gets = share
		b, err := bench.measure(e)
		if err != nil {
			return err
		}
		*rate = b.Rate
	}
	r.Sizes = append(r.Sizes, p)
	if n != 32 {
		return nil
	}
	bench.Gets = 0.95
	for _, share := range loads {
		bench.Rate = share * p.Reads
		b, err := bench.measure(e)
		if err != nil {
			fmt.Fprintf(e.Err, "at %.0f %% of the greatest rate: %s\n", 100*share, cli.OneLine(err))
			break // more is hopeless, too
		}
		r.Loads = append(r.Loads, loadPoint{bench.Rate, b.Rate, b.Get})
	}
	return nil
}

// drawSizes draws throughput against value size.
func (r *plotsResult) drawSizes(dir string) error {
	var reads, mixed plotter.XYs
	for _, p := range r.Sizes {
		reads = append(reads, plotter.XY{X: float64(p.Value), Y: p.Reads / 1e6})
		mixed = append(mixed, plotter.XY{X: float64(p.Value), Y: p.Mixed / 1e6})
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "value size, bytes", "million operations per second"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Y.Min = 0
	return draw(p, filepath.Join(dir, "value-size.svg"), "95 % GETs", reads, "50 % GETs", mixed)
}

// drawLoads draws the latency of GETs against load.
func (r *plotsResult) drawLoads(dir string) error {
	var p50, p99 plotter.XYs
	for _, l := range r.Loads {
		p50 = append(p50, plotter.XY{X: l.Rate / 1e6, Y: max(l.Get.P50, 0.01)})
		p99 = append(p99, plotter.XY{X: l.Rate / 1e6, Y: max(l.Get.P99, 0.01)})
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "million operations per second", "latency of GETs, us"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	return draw(p, filepath.Join(dir, "latency-load.svg"), "p50", p50, "p99", p99)
}

// draw adds lines, names and points in turns, and writes the file.
func draw(p *plot.Plot, file string, lines ...any) error {
	if len(lines[1].(plotter.XYs)) == 0 {
		return nil
	}
	p.Add(plotter.NewGrid())
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	return p.Save(18*vg.Centimeter, 12*vg.Centimeter, file)
}
