package rfplab

import (
	"math"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// beyond are figures that the model does not give within a quarter. The text of docs/papers.md and
// docs/remote-fetching.md says so.
var beyond = map[string]bool{
	"42 server threads, a client each, on 16 cores": true,
	"14 threads to 42": true,
	"4 server threads, 16 clients, batches of 1: reply":  true,
	"4 server threads, 16 clients, batches of 1: fetch":  true,
	"4 server threads, 16 clients, batches of 16: reply": true,
	"4 server threads, 16 clients, batches of 16: fetch": true,
	"out-bound WRITEs over 256 connections":              true,
	"in-bound WRITEs over 1600 connections":              true,
}

// bars holds figures to a quarter of the papers', but for those beyond, which are not nearer.
func bars(t *testing.T, list []Figure) {
	t.Helper()
	for _, f := range list {
		t.Logf("%-75s %8.2f %8.2f %s", f.What, f.Model, f.Paper, f.Unit)
		near := f.Model >= .75*f.Paper && f.Model <= 1.25*f.Paper
		if f.Paper != 0 && near == beyond[f.What] {
			t.Errorf("%s: %.2f, paper %.2f", f.What, f.Model, f.Paper)
		}
	}
}

// TestHerd holds the model to the figures of HERD's paper.
func TestHerd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 5 s: not with -short")
	}
	rep, err := Herd(t.Context(), 1, func(string, float64) {})
	if err != nil || rep.Cut {
		t.Fatal(err)
	}
	bars(t, rep.Figures)
}

// TestCrossover holds the crossover to the place between two points where the lines meet.
func TestCrossover(t *testing.T) {
	list := []Point{{Process: 0, Fetch: 3 * Gain, Reply: 2},
		{Process: 4000, Fetch: 2.5 * Gain, Reply: 2}, {Process: 8000, Fetch: Gain, Reply: 2}}
	// Leads of 1/2, 1/4, -1/2: they meet a third of the way from 4 to 8 us.
	if got := crossover(list); got < 5332 || got > 5334 {
		t.Errorf("%v, want 5.333us", got)
	}
	if got := crossover(list[:2]); got != 0 {
		t.Errorf("%v where the lines do not meet", got)
	}
}

// TestZipf holds the sum of probabilities of many keys to a sum one by one.
func TestZipf(t *testing.T) {
	const n = 8 * single
	want := 0.
	for i := range n {
		want += math.Pow(float64(i+1), -skew)
	}
	if got := newZipf(n, skew).zeta; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := newZipf(n, 0).spread(4); got < 1 || got > 1.01 {
		t.Errorf("%v between partitions without skew", got)
	}
}

// TestOff holds threads without a core to their turns: each of 5 runs in 2 of 5 turns on 2 cores,
// 2 at a time, and one that is off learns when its turn begins.
func TestOff(t *testing.T) {
	l := &lab{Run: Run{Servers: 5, Cores: 2}}
	turns := make([]int, 5)
	for turn := range 5 {
		now := model.Time(turn) * model.Time(model.Slice)
		for id := range 5 {
			wait := (&serverThread{l: l, id: id}).off(now + 1)
			if wait == 0 {
				turns[id]++
			} else if s := (&serverThread{l: l, id: id}); s.off(now+1+model.Time(wait)) != 0 ||
				s.off(now+model.Time(wait)) == 0 {
				t.Errorf("turn %d: thread %d waits %v", turn, id, wait)
			}
		}
	}
	if !slices.Equal(turns, []int{2, 2, 2, 2, 2}) {
		t.Errorf("turns of the threads: %v", turns)
	}
	l.Cores = 0
	if (&serverThread{l: l, id: 4}).off(1) != 0 {
		t.Error("a thread waits for one of all cores")
	}
}

// TestFigures holds the papers' figures to a quarter, and the hybrid to the better of its modes.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 20 s: not with -short")
	}
	rep, err := Figures(t.Context(), 1, func(string, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	bars(t, rep.Figures)
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
