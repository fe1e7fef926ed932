package rfplab

import "testing"

// TestFigures holds the papers' figures to a quarter, and the hybrid to the better of its modes.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 20 s: not with -short")
	}
	rep, err := Figures(t.Context(), 1, func(string, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Figures {
		t.Logf("%-75s %8.2f %8.2f %s", f.What, f.Model, f.Paper, f.Unit)
		if f.Paper != 0 && (f.Model < .75*f.Paper || f.Model > 1.25*f.Paper) {
			t.Errorf("%s: %.2f, paper %.2f", f.What, f.Model, f.Paper)
		}
	}
	for _, p := range rep.Points {
		t.Logf("%8v fetch %.2f reply %.2f hybrid %.2f M/s; client %v %v %v", p.Process,
			p.Fetch/1e6, p.Reply/1e6, p.Hybrid/1e6, p.FetchCPU, p.ReplyCPU, p.HybridCPU)
		if p.Hybrid < .95*max(p.Fetch, p.Reply) {
			t.Errorf("%v: hybrid %.2f of the better mode", p.Process, p.Hybrid/max(p.Fetch, p.Reply))
		}
		if p.Process > 8000 && float64(p.HybridCPU) > 1.1*float64(p.ReplyCPU) {
			t.Errorf("%v: hybrid takes %v of client time, reply %v", p.Process, p.HybridCPU, p.ReplyCPU)
		}
	}
}
