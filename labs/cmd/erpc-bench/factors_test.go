package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

func TestFactors(t *testing.T) {
	for _, more := range clitest.Some(2, " --symmetric", "") {
		status, out, errOut := erpcBench.Line(t, "factors --rounds 2 --duration 200ms --json"+
			more+gentle)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", more, status, errOut)
		}
		var r factorsResult
		clitest.DecodeOne(t, out, &r)
		if r.Bench != "factors" || r.Rounds != 2 || r.CC != "timely" || r.Rps <= 0 || r.Rps < r.RpsMin ||
			r.Rps > r.RpsMax ||
			r.Rpcs == 0 || r.Errors != 0 || r.Window != 60 || r.Batch != 3 || r.Symmetric != (more != "") {
			t.Errorf("%+v", r)
		}
		if len(r.Factors) != len(optimisations) {
			t.Fatalf("%d factors", len(r.Factors))
		}
		for i, f := range r.Factors {
			o := optimisations[i]
			if f.Name != o.name || f.Rps <= 0 || f.RatioMin <= 0 || f.RatioMin > f.Ratio ||
				f.Ratio > f.RatioMax || f.PaperLoss != o.paper {
				t.Errorf("%+v", f)
			}
			if (f.CumRps > 0) != o.step || f.CumMin > f.CumRatio || f.CumRatio > f.CumMax {
				t.Errorf("series: %+v", f)
			}
		}
	}
}

func TestFactorsTable(t *testing.T) {
	status, out, errOut := erpcBench.Line(t, "factors --rounds 1 --duration 100ms"+gentle)
	if status != cli.Done || !strings.Contains(out, "congestion control costs") {
		t.Errorf("status %d, out %q, err %q", status, out, errOut)
	}
	for _, o := range optimisations {
		if !strings.Contains(out, "\n"+o.title+" ") {
			t.Errorf("no line for %s in %q", o.title, out)
		}
	}
}

// TestFactorVariants: alone each optimisation is off and the others are on; in the
// series they go off one by one.
func TestFactorVariants(t *testing.T) {
	want := map[string]string{
		"nothing": "", "batched_time": "T", "rate_bypass": "R", "pacing_bypass": "P", "prealloc": "A",
		"zero_copy": "Z", "cc": "C", "bundles": "B",
		"... rate_bypass": "TR", "... pacing_bypass": "TRP", "... prealloc": "TRPA",
		"... zero_copy": "TRPAZ",
	}
	list := factorVariants()
	if len(list) != len(want) {
		t.Errorf("%d variants, want %d", len(list), len(want))
	}
	for _, v := range list {
		f := measure.NetFlags{CC: "timely"}
		v.Set(&f)
		got := ""
		for _, s := range []struct {
			on   bool
			mark string
		}{{f.NoBatchedTime, "T"}, {f.NoRateBypass, "R"}, {f.NoPacingBypass, "P"}, {f.NoPrealloc,
			"A"}, {f.NoZeroCopy, "Z"}, {f.CC == "none", "C"}, {f.NoBundles, "B"}} {
			if s.on {
				got += s.mark
			}
		}
		if w, ok := want[v.Name]; !ok || got != w {
			t.Errorf("%s switches off %q, want %q", v.Name, got, w)
		}
	}
}

// TestFactorsArithmetic gives known ratios: step k of the series halves the rate of
// the one before.
func TestFactorsArithmetic(t *testing.T) {
	side := func(name string, ratios ...float64) measure.Measured {
		return measure.Measured{Name: name, Sum: &measure.Result{Rps: 20, Rpcs: 6},
			Rates: []float64{10, 30, 20}, Ratios: ratios}
	}
	c := &measure.Compared{Sides: []measure.Measured{side("baseline")}}
	cum := 1.0
	for _, v := range factorVariants() {
		ratio := 0.5
		if strings.HasPrefix(v.Name, "... ") || v.Name == "batched_time" {
			cum /= 2
			ratio = cum
		}
		if v.Name == "cc" {
			ratio = 1.25
		}
		c.Sides = append(c.Sides, side(v.Name, ratio, 2*ratio, ratio/2))
	}
	r := factorsOf(c)
	if r.Rps != 20 || r.RpsMin != 10 || r.RpsMax != 30 || r.Rounds != 3 ||
		r.Rpcs != 6*uint64(len(c.Sides)) {
		t.Errorf("%+v", r)
	}
	if !near(r.Cost, 20) || !near(r.PlainCost, 90) { // 1/1.25 and 0.125/1.25
		t.Errorf("costs %v and %v", r.Cost, r.PlainCost)
	}
	cum = 1
	for i, f := range r.Factors {
		if !optimisations[i].step {
			continue
		}
		cum /= 2
		if !near(f.StepLoss, 50) || f.CumRatio != cum || f.CumMin != cum/2 || f.CumMax != 2*cum ||
			f.Ratio != 0.5 || f.RatioMax != 1 || !near(f.Loss, 50) {
			t.Errorf("%+v", f)
		}
	}
	var out bytes.Buffer
	r.Interrupted, r.Failed = true, "the server died"
	if err := r.print(&out, false); err != nil || !strings.Contains(out.String(), "costs 20.0 %") ||
		!strings.Contains(out.String(), "interrupted") || !strings.Contains(out.String(), r.Failed) {
		t.Errorf("%v: %q", err, out.String())
	}
}

// near compares what was computed in another order.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
