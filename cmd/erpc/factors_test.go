package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/cli"
)

func TestFactors(t *testing.T) {
	for _, more := range some(2, " --symmetric", "") {
		status, out, errOut := runCommand(t, "bench factors --rounds 2 --duration 200ms --json"+
			more+gentle)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", more, status, errOut)
		}
		var r factorsResult
		decodeOne(t, out, &r)
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
	status, out, errOut := runCommand(t, "bench factors --rounds 1 --duration 100ms"+gentle)
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
		f := netFlags{CC: "timely"}
		v.set(&f)
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
		if w, ok := want[v.name]; !ok || got != w {
			t.Errorf("%s switches off %q, want %q", v.name, got, w)
		}
	}
}

// TestServerKinds: arms share a server process unless it is to behave differently or
// sends requests itself.
func TestServerKinds(t *testing.T) {
	count := func(b *bench, variants []variant) int {
		c := &comparison{}
		kinds := map[serverKind]bool{c.add(b,
			variant{name: "baseline", set: func(*netFlags) {}}).serverKind(): true}
		for _, v := range variants {
			kinds[c.add(b, v).serverKind()] = true
		}
		return len(kinds)
	}
	b := &bench{flags: &benchFlags{loadFlags: loadFlags{netFlags: netFlags{CC: "timely"}}}}
	ecn := []variant{{name: "dcqcn", set: func(f *netFlags) { f.CC = "dcqcn" }},
		{name: "none", set: func(f *netFlags) { f.CC = "none" }}}
	if n := count(b, factorVariants()); n != 5 { // prealloc and zero_copy, both on or off; bundles off
		t.Errorf("%d kinds of servers, want 5", n)
	}
	if n := count(b, ecn); n != 2 {
		t.Errorf("%d kinds of servers, want 2: with ECN and without", n)
	}
	b.symmetric = true
	if n := count(b, factorVariants()); n != 13 {
		t.Errorf("%d kinds of servers, want 13", n)
	}
}

// TestFactorsArithmetic gives known ratios: step k of the series halves the rate of
// the one before.
func TestFactorsArithmetic(t *testing.T) {
	b := &bench{name: "factors", flags: &benchFlags{}, hist: newHistogram()}
	c := &comparison{rounds: 3}
	c.add(b, variant{name: "baseline", set: func(*netFlags) {}})
	cum := 1.0
	for _, v := range factorVariants() {
		a := c.add(b, v)
		ratio := 0.5
		if strings.HasPrefix(v.name, "... ") || v.name == "batched_time" {
			cum /= 2
			ratio = cum
		}
		if v.name == "cc" {
			ratio = 1.25
		}
		a.ratios = []float64{ratio, 2 * ratio, ratio / 2}
	}
	for _, a := range c.arms {
		a.bench.hist = newHistogram()
		a.bench.rounds = []sum{{round: round{done: 2, rate: 10}}, {round: round{done: 2, rate: 30}},
			{round: round{done: 2, rate: 20}}}
	}
	r := factorsOf(c)
	if r.Rps != 20 || r.RpsMin != 10 || r.RpsMax != 30 || r.Rounds != 3 ||
		r.Rpcs != 6*uint64(len(c.arms)) {
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

// TestLoadChangesClient: a server with --symmetric serves one client's load at a time,
// and the next client's when that has ended.
func TestLoadChangesClient(t *testing.T) {
	server, first, _ := testPair(t)
	_, second, _ := testPair(t)
	server.allowLoad = true
	s := shape{Size: 32, RespSize: 32, Window: 4, Batch: 1, Sessions: 1}
	begin := func(ep *endpoint, s shape) error {
		return server.obey(&control{Op: "load", Load: s}, &report{}, ep.rpc.LocalAddr())
	}
	run := func(over func() bool) {
		for !over() {
			turn(t, server, first, second)
		}
	}
	busy := func() bool { return server.load.done > 10 }
	quiet := func() bool { return server.load.inFlight == 0 }
	if err := begin(first, s); err != nil {
		t.Fatal(err)
	}
	run(busy)
	if err := begin(second, s); err == nil || !strings.Contains(err.Error(), "another client") {
		t.Errorf("second client beside the first: %v", err)
	}
	rep := report{}
	if err := server.obey(&control{Op: "unload"}, &rep, first.rpc.LocalAddr()); err != nil ||
		rep.Done == 0 || rep.InFlight == 0 {
		t.Errorf("unload: %v, %+v", err, rep)
	}
	run(quiet)
	large := s
	large.Size = 100
	for _, next := range []struct {
		ep *endpoint
		s  shape
	}{{second, s}, {second, large}, {first, s}} {
		served := next.ep.served
		if err := begin(next.ep, next.s); err != nil {
			t.Fatal(err)
		}
		run(busy)
		server.load.stopping = true
		run(quiet)
		if server.load.asked != next.s || next.ep.served == served {
			t.Errorf("load %+v, %d served", server.load.asked, next.ep.served-served)
		}
	}
}
