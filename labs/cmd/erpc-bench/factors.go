package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type factorsCmd struct {
	measure.LoadFlags
	Duration  time.Duration `default:"30s" help:"How long to measure, all variants and rounds together; default ${default}." placeholder:"TIME"`
	Rounds    int           `default:"5" help:"Turns of each variant; medians are reported; default ${default}." placeholder:"N"`
	Size      int           `default:"32" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	RespSize  int           `default:"32" help:"Bytes in a response; default ${default}." placeholder:"BYTES"`
	Window    int           `default:"60" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Batch     int           `default:"3" help:"RPCs issued together; default ${default}, as in the paper." placeholder:"N"`
	Symmetric bool          `help:"Every thread is client and server, as in the paper; each RPC counts once."`
}

// Help is shown by --help.
func (factorsCmd) Help() string {
	return `Switches optimisations of the common case off: each alone, and one after the
other until all are off, as Table 3 of the eRPC paper (NSDI 2019) does. Each variant
is measured beside a baseline in which all are on, in turns, many times in one run;
"nothing" is the baseline once more and shows how far chance goes. The paper's
multi-packet receive queue (5.6 %) is a NIC's and has no counterpart here.

Examples:
  erpc-bench factors
  erpc-bench factors --symmetric --rounds 9 --duration 60s
  erpc-bench factors --cc dcqcn --json`
}

type netFlags = measure.NetFlags

// optimisation is one that can be switched off.
type optimisation struct {
	name, title string
	off         func(*netFlags)
	paper       float64 // what the paper loses, percent; 0: not measured there
	step        bool    // part of the series in which all are switched off one after the other
}

// paperCost is the cost of congestion control in the paper's section 6.2 with its
// optimisations and without, percent.
const paperCost, paperPlainCost = 9, 20

// optimisations are those of the paper's Table 3, in its order. The last one is in its
// text: 4.96 M/s become 5.44 M/s.
var optimisations = []optimisation{
	{name: "nothing", title: "nothing", off: func(*netFlags) {}},
	{"batched_time", "batched timestamps", func(f *netFlags) { f.NoBatchedTime = true }, 2.4, true},
	{"rate_bypass", "rate update bypass", func(f *netFlags) { f.NoRateBypass = true }, 6.6, true},
	{"pacing_bypass", "rate limiter bypass", func(f *netFlags) { f.NoPacingBypass = true }, 4.8, true},
	{"prealloc", "preallocated responses", func(f *netFlags) { f.NoPrealloc = true }, 12.6, true},
	{"zero_copy", "zero-copy requests", func(f *netFlags) { f.NoZeroCopy = true }, 14.0, true},
	{"bundles", "bundles", func(f *netFlags) { f.NoBundles = true }, 0, false},
	{"cc", "congestion control", func(f *netFlags) { f.CC = "none" }, -9.7, false},
}

// plainCC is the last of optimisations that belongs to congestion control.
const plainCC = "pacing_bypass"

// factorVariants are the variants to measure: each optimisation off alone, and then
// the series. Its first element is the first alone, so it is not measured again.
func factorVariants() (list []measure.Variant) {
	for _, o := range optimisations {
		list = append(list, measure.Variant{Name: o.name, Set: o.off})
	}
	var offs []func(*netFlags)
	for _, o := range optimisations {
		if !o.step {
			continue
		}
		if offs = append(offs, o.off); len(offs) > 1 {
			upTo := slices.Clone(offs)
			list = append(list, measure.Variant{Name: seriesName(o.name), Set: func(f *netFlags) {
				for _, off := range upTo {
					off(f)
				}
			}})
		}
	}
	return list
}

// seriesName is the name of the variant in which all up to the named one are off.
func seriesName(name string) string { return "... " + name }

// factor is the effect of switching one optimisation off. Ratios are medians over the
// rounds of rates measured side by side.
type factor struct {
	Name      string  `json:"name"`
	Rps       float64 `json:"rps"`
	Ratio     float64 `json:"ratio"` // to the baseline
	RatioMin  float64 `json:"ratio_min"`
	RatioMax  float64 `json:"ratio_max"`
	Loss      float64 `json:"loss_percent"`
	PaperLoss float64 `json:"paper_loss_percent,omitempty"` // in the series, as StepLoss

	// With all optimisations before this one off too.
	CumRps   float64 `json:"cumulative_rps,omitempty"`
	CumRatio float64 `json:"cumulative_ratio,omitempty"`
	CumMin   float64 `json:"cumulative_ratio_min,omitempty"`
	CumMax   float64 `json:"cumulative_ratio_max,omitempty"`
	StepLoss float64 `json:"step_loss_percent,omitempty"` // against the one before in the series

	title string
}

// factorsResult is printed by factors with --json. Costs say how much lower
// the rate is than with no congestion control.
type factorsResult struct {
	Bench          string   `json:"bench"`
	Transport      string   `json:"transport"`
	CC             string   `json:"cc"`
	LinkRate       float64  `json:"link_rate,omitempty"`
	Size           int      `json:"size"`
	RespSize       int      `json:"resp_size"`
	MTU            int      `json:"mtu"`
	Window         int      `json:"window"`
	Batch          int      `json:"batch"`
	Threads        int      `json:"threads"`
	Sessions       int      `json:"sessions"`
	Credits        int      `json:"credits"`
	Symmetric      bool     `json:"symmetric,omitempty"`
	Rounds         int      `json:"rounds"`
	Duration       float64  `json:"duration_s"`
	Turn           float64  `json:"turn_s"`
	Rpcs           uint64   `json:"rpcs"`
	Retransmits    uint64   `json:"retransmits"`
	Errors         uint64   `json:"errors"`
	Rps            float64  `json:"rps"` // of the baseline, median
	RpsMin         float64  `json:"rps_min"`
	RpsMax         float64  `json:"rps_max"`
	Factors        []factor `json:"factors"`
	Cost           float64  `json:"cc_cost_percent"`
	PaperCost      float64  `json:"paper_cc_cost_percent"`
	PlainCost      float64  `json:"cc_unoptimised_cost_percent"`
	PaperPlainCost float64  `json:"paper_cc_unoptimised_cost_percent"`
	Seed           uint64   `json:"seed,omitempty"`
	Interrupted    bool     `json:"interrupted,omitempty"`
	Failed         string   `json:"failed,omitempty"` // why it ended early
}

// Run implements the subcommand.
func (c *factorsCmd) Run(e *measure.Env) error {
	if c.CC == "none" {
		return cli.Usagef("--cc none: factors switches parts of congestion control off; want timely, " +
			"dcqcn, swift or cubic")
	}
	if off := c.Off(); len(off) > 0 {
		return cli.Usagef("--%s: factors itself switches optimisations off", off[0])
	}
	flags := measure.BenchFlags{LoadFlags: c.LoadFlags, Duration: c.Duration, Rounds: c.Rounds}
	s := measure.Shape{Size: c.Size, RespSize: c.RespSize, Window: c.Window, Batch: c.Batch}
	comp, err := flags.Compare(e, "factors", s, c.Symmetric, factorVariants())
	if comp == nil {
		return err
	}
	res := factorsOf(comp)
	res.Interrupted, res.Failed = e.Ctx.Err() != nil, comp.Failed
	return errors.Join(err, res.print(e.Out, c.JSON))
}

// factorsOf sums up.
func factorsOf(c *measure.Compared) *factorsResult {
	b := c.Sides[0].Sum
	r := &factorsResult{
		Bench: b.Bench, Transport: b.Transport, CC: b.CC, LinkRate: b.LinkRate, Size: b.Size,
		RespSize: b.RespSize, MTU: b.MTU,
		Window: b.Window, Batch: b.Batch, Threads: b.Threads, Sessions: b.Sessions, Credits: b.Credits,
		Symmetric: b.Symmetric,
		Turn:      c.Turn.Seconds(), Rps: b.Rps, PaperCost: paperCost, PaperPlainCost: paperPlainCost,
		Seed: b.Seed,
	}
	byName := map[string]*measure.Measured{}
	for i := range c.Sides {
		m := &c.Sides[i]
		r.Rpcs, r.Retransmits, r.Errors, r.Duration = r.Rpcs+m.Sum.Rpcs,
			r.Retransmits+m.Sum.Retransmits, r.Errors+m.Sum.Errors, r.Duration+m.Sum.Duration
		byName[m.Name] = m
	}
	all := measure.SpreadOf(c.Sides[0].Rates)
	r.RpsMin, r.RpsMax = all.Min, all.Max
	var before []float64 // ratios of the series so far
	for _, o := range optimisations {
		a := byName[o.name]
		s := measure.SpreadOf(a.Ratios)
		f := factor{Name: o.name, title: o.title, Rps: cli.Median(a.Rates), Ratio: s.Median,
			RatioMin: s.Min, RatioMax: s.Max,
			Loss: measure.Loss(s.Median), PaperLoss: o.paper}
		if o.step {
			if s := byName[seriesName(o.name)]; s != nil {
				a = s
			}
			f.series(a, before)
			before = a.Ratios
			if o.name == plainCC {
				r.PlainCost = measure.Loss(cli.Median(quotients(a.Ratios, byName["cc"].Ratios)))
			}
		}
		r.Factors = append(r.Factors, f)
		r.Rounds = len(a.Ratios)
	}
	r.Cost = measure.Loss(cli.Median(measure.Inverses(byName["cc"].Ratios)))
	return r
}

// series adds what the side of the series gave; before are the ratios of the one
// before it, nil for the first.
func (f *factor) series(a *measure.Measured, before []float64) {
	s := measure.SpreadOf(a.Ratios)
	f.CumRps, f.CumRatio, f.CumMin, f.CumMax = cli.Median(a.Rates), s.Median, s.Min, s.Max
	f.StepLoss = measure.Loss(s.Median)
	if before != nil {
		f.StepLoss = measure.Loss(cli.Median(quotients(a.Ratios, before)))
	}
}

// quotients divides a by b, element by element, as far as both go.
func quotients(a, b []float64) (q []float64) {
	for i := range min(len(a), len(b)) {
		q = append(q, a[i]/b[i])
	}
	return q
}

// print writes the result for scripts or for people.
func (r *factorsResult) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	fmt.Fprintf(w, "%s over %s, requests %s, responses %s, %d in flight in batches of %d, %d "+
		"thread(s), %d session(s) each, %s\n",
		r.Bench, r.Transport, cli.BytesText(r.Size), cli.BytesText(
			r.RespSize), r.Window, r.Batch, r.Threads, r.Sessions, measure.CCText(r.CC, r.LinkRate))
	fmt.Fprintf(w, "baseline %s/s (%s to %s); medians of %d rounds of %.0f ms\n\n",
		cli.CountText(r.Rps), cli.CountText(r.RpsMin), cli.CountText(r.RpsMax), r.Rounds, r.Turn*1e3)
	t := cli.NewTable(w)
	fmt.Fprintln(t, "switched off\talone\tratio (min to max)\tloss\twith all above\tratio (min to "+
		"max)\tloss of this step\tpaper")
	for _, f := range r.Factors {
		fmt.Fprintf(t, "%s\t%s/s\t%.3f (%.3f to %.3f)\t%.1f %%\t", f.title, cli.CountText(f.Rps), f.Ratio,
			f.RatioMin, f.RatioMax, f.Loss)
		if f.CumRps > 0 {
			fmt.Fprintf(t, "%s/s\t%.3f (%.3f to %.3f)\t%.1f %%\t", cli.CountText(f.CumRps),
				f.CumRatio, f.CumMin, f.CumMax, f.StepLoss)
		} else {
			fmt.Fprint(t, "\t\t\t")
		}
		if f.PaperLoss != 0 {
			fmt.Fprintf(t, "%.1f %%", f.PaperLoss)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	note := ""
	if r.Interrupted {
		note = "interrupted: measured so far\n"
	}
	if r.Failed != "" {
		note += "measured until it failed: " + r.Failed + "\n"
	}
	_, err := fmt.Fprintf(w,
		"\ncongestion control costs %.1f %% of the rate without it (paper: %.0f %%), and %.1f %% "+
			"without its three optimisations (paper: %.0f %%)\n%s",
		r.Cost, r.PaperCost, r.PlainCost, r.PaperPlainCost, note)
	return err
}
