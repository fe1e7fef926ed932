package rfplab

import (
	"testing"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	t.Logf("%s: %.3g, want %.3g", what, got, want)
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s: %.3g, want %.3g", what, got, want)
	}
}

// TestRates holds the model's adapters to the rates that are its inputs, and large operations to
// the bandwidth of the link.
func TestRates(t *testing.T) {
	get := func(v Verbs) float64 {
		t.Helper()
		rate, err := v.Rate()
		if err != nil {
			t.Fatal(err)
		}
		return rate / 1e6
	}
	wait := Verbs{Params: model.Paper(), Machines: 7, Bytes: 32, Window: 40}
	out, free := wait, wait
	out.Out, out.Verb, out.Window = true, WRITE, 8
	free.Params, free.Window = model.Pipelined(), 160
	near(t, "in-bound READs", get(wait), 11.26, .001)
	near(t, "out-bound WRITEs", get(out), 2.11, .005)
	near(t, "in-bound READs, free", get(free), 26, .001)
	link := wait.Params.Bandwidth / 8 / 8192 / 1e6
	wait.Bytes, out.Bytes = 8192, 8192
	near(t, "in-bound READs of 8 kB", get(wait), link, .05)
	near(t, "out-bound WRITEs of 8 kB", get(out), link, .05)
	wait.Verb, wait.Bytes = WRITE, 32
	near(t, "in-bound WRITEs", get(wait), 11.26, .001)
}

// TestBypass holds a GET to Pilaf's 2.6 READs, and the rate to what the adapter serves.
func TestBypass(t *testing.T) {
	for _, p := range []model.Params{model.Paper(), model.Pipelined()} {
		res, err := Bypass(p, 35, 4, 3000, 1)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "READs of a GET", res.Reads, 2.6, .1)
		near(t, "GETs", res.Rate/1e6, p.Server.InRead/res.Reads/1e6, .1)
	}
}

// TestDesigns holds the designs to what their papers report: HERD ahead of all that wait for READs,
// and its rate near its paper's.
func TestDesigns(t *testing.T) {
	rate := func(r Run) float64 {
		t.Helper()
		res, err := Simulate(r)
		if err != nil {
			t.Fatal(err)
		}
		return res.Rate / 1e6
	}
	r := store(1, 6)
	r.Params, r.Outstanding, r.Calls = model.Pipelined(), 4, 4000
	r.Config = rfp.Config{Mode: rfp.Reply}
	reply := rate(r)
	erpc, herd, fetch := r, r, r
	erpc.Design = ERPC
	herd.Design, herd.Prefetch = HERD, true
	fetch.Config = rfp.Config{F: 64, Mode: rfp.Fetch, First: rfp.Behind}
	e, h, f := rate(erpc), rate(herd), rate(fetch)
	t.Logf("reply %.2f, eRPC %.2f, HERD %.2f, fetch %.2f M/s", reply, e, h, f)
	near(t, "HERD", h, 26, .25)
	if h < reply || h < f || f > reply {
		t.Errorf("reply %.2f, HERD %.2f, fetch %.2f M/s", reply, h, f)
	}
}

// TestTune holds the choice on the papers' adapters to theirs for small values, R 5 and F 256, and
// measurements to be the same twice.
func TestTune(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds: not with -short")
	}
	a, err := Tune(1, []int{32, 32, 64})
	if err != nil {
		t.Fatal(err)
	}
	m := machine(1)
	for _, row := range a.Table[:2] {
		if again, err := m.IOPS(row.R, row.F); err != nil || again != row.IOPS {
			t.Errorf("R %d, F %d: %v, then %v, %v", row.R, row.F, row.IOPS, again, err)
		}
	}
	t.Logf("R %d of %d, F %d of %d to %d, switch at %v", a.R, a.Most, a.F, a.Low, a.High, a.SwitchTime)
	if a.R != a.Most || a.F != 256 || a.Low != 256 || a.Most < 4 || a.Most > 6 {
		t.Errorf("R %d of %d, F %d of %d to %d", a.R, a.Most, a.F, a.Low, a.High)
	}
}

func TestCurves(t *testing.T) {
	c, err := Curves(t.Context(), 1, "sizes", func(string, float64) {})
	if err != nil || len(c.Lines) != 6 || c.Cut {
		t.Errorf("%d lines, %v", len(c.Lines), err)
	}
	if _, err := Curves(t.Context(), 1, "none", func(string, float64) {}); err == nil {
		t.Error("a figure that there is not")
	}
}
