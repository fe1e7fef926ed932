package erpc

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestSamplerPeriods: for loads with periods of all kinds the sum of the durations that were timed,
// each as often as it counts, is that of all, and as many are timed as shall be.
func TestSamplerPeriods(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	for trial := range uint64(20) {
		var m meter
		m.sampler.init(trial+1, 0)
		pattern := make([]time.Duration, 2+rng.IntN(40))
		for i := range pattern {
			if pattern[i] = 100; rng.IntN(4) == 0 {
				pattern[i] = time.Duration(rng.IntN(60_000))
			}
		}
		const calls = 400_000
		var timed int
		var sum time.Duration
		now := Time(1e9)
		for i := range calls {
			now += 500
			d := pattern[i%len(pattern)]
			if sum += d; m.sampler.due(1) {
				if now >= 1e9+Time(rateOver) {
					timed++
				}
				m.server(1).Handler.addSame(int64(d), m.sampler.next(1, now))
			}
			now = now.Add(d)
		}
		h, took := &m.server(1).Handler, now.Sub(1e9)
		if part := float64(h.Sum) / float64(sum); part < 0.95 || part > 1.05 {
			t.Errorf("period %d: %.3f of the sum", len(pattern), part)
		}
		if h.Count > calls || h.Count < calls-2*maxGap || took/time.Duration(timed) < HandlerEvery/2 {
			t.Errorf("period %d: %d handlers were timed in %v, and count as %d", len(pattern), timed,
				took, h.Count)
		}
	}
}

// TestSamplerIdle: when a load is gone, and after a pass that took long without a reason that is
// known, the next request of each type is timed; those before count.
func TestSamplerIdle(t *testing.T) {
	for name, quiet := range map[string]func(m *meter, now Time) Time{
		"the load is gone": func(m *meter, now Time) Time {
			now = now.Add(staleAfter)
			m.refresh(now)
			return now
		},
		"a pass took long": func(m *meter, now Time) Time {
			now++
			m.sampler.timed(now, odd/2) // a part is known
			m.explain(now, now.Add(2*odd))
			return now.Add(2 * odd)
		},
	} {
		var m meter
		m.sampler.init(1, 0)
		now, calls := Time(1e9), uint64(0)
		for range 100_000 {
			now += 100
			if calls++; m.sampler.due(1) {
				m.server(1).Handler.addSame(7, m.sampler.next(1, now))
				m.sampler.gaps[1].last = 7
			}
		}
		if m.sampler.gaps[1].mean < 100 {
			t.Fatalf("%s: a load of 10 million a second has a mean gap of %d", name,
				m.sampler.gaps[1].mean)
		}
		m.explain(now, now.Add(odd/2)) // not long
		m.sampler.timed(now, odd)
		m.explain(now, now.Add(odd+odd/2)) // the handlers are known
		if m.sampler.gaps[1].mean == 1 {
			t.Errorf("%s: all are timed without a reason", name)
		}
		quiet(&m, now)
		if h := &m.server(1).Handler; h.Count != calls || h.Sum != 7*int64(calls) {
			t.Errorf("%s: %d of %d count, with %d ns", name, h.Count, calls, h.Sum)
		}
		if !m.sampler.due(1) {
			t.Errorf("%s: the next request is not timed", name)
		}
	}
}
