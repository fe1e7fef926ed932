package carousel_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// clock is simulated time in irregular steps: mostly the length of an event loop's
// round, at times a pause, and now and then the step before once more.
type clock struct {
	rng *rand.Rand
	now carousel.Time
}

func (c *clock) step() carousel.Time {
	switch c.rng.IntN(64) {
	case 0:
		c.now = c.now.Add(below(c.rng, 300*time.Microsecond))
	case 1:
	default:
		c.now = c.now.Add(below(c.rng, 6*time.Microsecond))
	}
	return c.now
}

// below returns a random duration from 0 to d, without d.
func below(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// paced is a flow with its pacing clock.
type paced struct {
	id   int
	gap  float64 // ns between packets: size/rate
	next float64 // pacing clock, ns
	sent int     // packets that left
	made int     // packets that were inserted
}

// at returns the first whole nanosecond that is not before the pacing clock.
func (f *paced) at() carousel.Time { return carousel.Time(math.Ceil(f.next)) }

// newFlows returns n flows of random rates and start times within their first gap.
// Gaps are spread evenly over the orders of magnitude from lo to hi.
func newFlows(rng *rand.Rand, n int, lo, hi float64) []*paced {
	all := make([]*paced, n)
	for i := range all {
		gap := lo * math.Pow(hi/lo, rng.Float64())
		all[i] = &paced{id: i, gap: gap, next: gap * rng.Float64()}
	}
	return all
}

// wantRates checks that each flow sent what its rate allows until now, within 1 %, and
// never more.
func wantRates(t *testing.T, all []*paced, now carousel.Time) {
	t.Helper()
	worst := 0.0
	for _, f := range all {
		ideal := float64(now) / f.gap
		if ideal < 150 {
			t.Fatalf("flow %d could send only %.0f packets: too few to measure 1 %%", f.id, ideal)
		}
		if float64(f.sent) > ideal+1 {
			t.Errorf("flow %d: %d packets, but the rate allows %.1f", f.id, f.sent, ideal)
		}
		off := math.Abs(float64(f.sent)-ideal) / ideal
		worst = max(worst, off)
		if off > 0.01 {
			t.Errorf("flow %d: %d packets, rate %.2f %% off", f.id, f.sent, 100*off)
		}
	}
	t.Logf("%d flows, the worst rate is %.2f %% off", len(all), 100*worst)
}

// One entry per session, as the endpoint uses the wheel: 20,000 sessions of different
// rates keep their rates, and each leaves when its slot begins, not before.
func TestSessionsKeepTheirRates(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 1000
	}
	rng := rand.New(rand.NewPCG(5, 6))
	w, err := carousel.New[*paced](carousel.Config{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := newFlows(rng, n, 50_000, 500_000)
	for _, f := range all {
		w.Insert(f.at(), f)
	}
	c, before, packets := clock{rng: rng}, carousel.Time(0), 0
	end := carousel.Time(100 * time.Millisecond)
	for c.now < end {
		now := c.step()
		w.Advance(now)
		for f, ok := w.Pop(now); ok; f, ok = w.Pop(now) {
			at := f.at()
			if at > now || before.Sub(at) >= w.Granularity() {
				t.Fatalf("flow %d, time %d, left at %d; the owner asked at %d before", f.id, at, now, before)
			}
			f.sent++
			packets++
			f.next += f.gap
			if w.Insert(f.at(), f) {
				t.Fatalf("flow %d: %.0f is within the horizon at %d, but was clipped", f.id, f.next, now)
			}
		}
		before = now
	}
	if w.Len() != n {
		t.Errorf("%d entries, want one for each of %d flows", w.Len(), n)
	}
	t.Logf("%d packets", packets)
	wantRates(t, all, c.now)
}

// packet goes through the wheel when it carries packets: a value, not a
// pointer.
type packet struct {
	flow *paced
	seq  int
	at   carousel.Time
}

// Packets: each flow keeps eight in the wheel. They leave in order, none is lost.
func TestPacketsKeepOrderAndRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	w, err := carousel.New[packet](carousel.Config{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	insert := func(f *paced) {
		at := f.at()
		if w.Insert(at, packet{f, f.made, at}) {
			t.Fatalf("flow %d: clipped", f.id)
		}
		f.made++
		f.next += f.gap
	}
	const window = 8
	all := newFlows(rng, 1000, 20_000, 400_000)
	for _, f := range all {
		for range window {
			insert(f)
		}
	}
	c := clock{rng: rng}
	for c.now < carousel.Time(80*time.Millisecond) {
		now := c.step()
		w.Advance(now)
		for p, ok := w.Pop(now); ok; p, ok = w.Pop(now) {
			if p.at > now || p.seq != p.flow.sent {
				t.Fatalf("flow %d: packet %d of time %d at %d, want packet %d", p.flow.id, p.seq, p.at, now,
					p.flow.sent)
			}
			p.flow.sent++
			insert(p.flow)
		}
	}
	wantRates(t, all, c.now)
	if w.Len() != window*len(all) {
		t.Errorf("%d packets in the wheel, want %d", w.Len(), window*len(all))
	}
	drain(w, c.now.Add(time.Hour))
	if w.Len() != 0 {
		t.Errorf("%d packets are left", w.Len())
	}
}

// Packets of slow and fast flows through pauses of hours and a clock that jumps back,
// with an owner that takes a few at a time: order and number hold, and nothing that
// was not clipped is early.
func TestPacketsAcrossJumps(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	w, err := carousel.New[packet](carousel.Config{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := newFlows(rng, 500, 1000, 6_000_000)
	var now, greatest carousel.Time
	clipped := map[packet]bool{}
	pop := func() bool {
		p, ok := w.Pop(now)
		if !ok {
			return false
		}
		if p.seq != p.flow.sent {
			t.Fatalf("flow %d: packet %d, want %d", p.flow.id, p.seq, p.flow.sent)
		}
		p.flow.sent++
		if p.at > greatest && !clipped[p] {
			t.Fatalf("flow %d: packet %d of time %d is early at %d", p.flow.id, p.seq, p.at, greatest)
		}
		delete(clipped, p)
		return true
	}
	for range 20_000 {
		switch rng.IntN(200) {
		case 0:
			now = now.Add(below(rng, 5*time.Hour))
		case 1:
			now = now.Add(-below(rng, 3*time.Hour))
		default:
			now = now.Add(below(rng, 100*time.Microsecond))
		}
		greatest = max(greatest, now)
		w.Advance(now)
		for range rng.IntN(10) {
			f := all[rng.IntN(len(all))]
			f.next = max(float64(now), f.next+f.gap)
			at := carousel.Time(f.next)
			if p := (packet{f, f.made, at}); w.Insert(at, p) {
				clipped[p] = true
			}
			f.made++
		}
		for range rng.IntN(10) {
			if !pop() {
				break
			}
		}
	}
	now = greatest.Add(w.Horizon() + 1024)
	for greatest = now; pop(); {
	}
	for _, f := range all {
		if f.sent != f.made {
			t.Errorf("flow %d: %d packets out, %d in", f.id, f.sent, f.made)
		}
	}
	if w.Clipped() == 0 {
		t.Error("nothing was clipped: the test misses the horizon")
	}
}
