package dcqcn

import (
	"math"
	"testing"
)

// model returns a bottleneck of 25 Gbit/s with an idle round trip of 6 us and packets
// of 1000 bytes, marked with the thresholds of the DCQCN testbed but for a
// steeper slope. Sessions have 32 credits, as a real session's default.
func model(cfg *Config) *bottleneck {
	return &bottleneck{cfg: cfg, link: 25e9 / 8, size: 1000, base: 6 * us, credits: 32,
		kMin: 5e3, kMax: 200e3, pMax: 0.1, warm: 60_000 * us, end: 120_000 * us}
}

// TestTwoConverge: two sessions that begin far apart get equal rates. Without credits,
// so that only the rates matter.
func TestTwoConverge(t *testing.T) {
	b := model(filled(t, Config{}))
	b.credits = 0
	b.add(1, 0.9*b.link, 0, 0)
	b.add(1, 0.1*b.link, 0, 0)
	b.run()
	r := b.rates()
	if ratio := r[0] / r[1]; math.Abs(ratio-1) > 0.2 {
		t.Errorf("rates %.4g and %.4g", r[0], r[1])
	}
	check(t, b, 0.95, 0.95, 50*us)
}

// TestIncast: sessions that all begin at link rate share the link, and the queue
// stays short.
func TestIncast(t *testing.T) {
	for _, n := range []int{3, 20, 50, 100} {
		b := model(filled(t, Config{}))
		b.add(n, b.link, 0, us)
		b.run()
		check(t, b, 0.95, 0.9, 150*us)
		// The credits alone bound the queue in the first round trips.
		if most := b.delay(100); most > int64(n*b.credits)*b.duration(b.link) {
			t.Errorf("%d sessions: a packet waited %d ns", n, most)
		}
	}
}

// TestPublishedSlope: with the published slope of 1 % as well.
func TestPublishedSlope(t *testing.T) {
	b := model(filled(t, Config{}))
	b.pMax = 0.01
	b.add(20, b.link, 0, us)
	b.run()
	check(t, b, 0.95, 0.9, 150*us)
}

// check wants Jain's index and the used part of the link to be at least so much, and
// the 99th percentile of the time in the queue at most so long.
func check(t *testing.T, b *bottleneck, fair, used float64, delay int64) {
	t.Helper()
	if got := jain(b.rates()); got < fair {
		t.Errorf("%d sessions: Jain's index %.3f, want %.2f", len(b.sessions), got, fair)
	}
	if got := b.utilisation(); got < used || got > 1.001 {
		t.Errorf("%d sessions: utilisation %.3f, want %.2f", len(b.sessions), got, used)
	}
	if got := b.delay(99); got > delay {
		t.Errorf("%d sessions: 99 %% of the packets wait up to %d ns, want %d", len(b.sessions), got, delay)
	}
	t.Logf("%d sessions: %.1f us median, %.1f us 99 %%, utilisation %.3f, Jain %.4f", len(b.sessions),
		float64(b.delay(50))/us, float64(b.delay(99))/us, b.utilisation(), jain(b.rates()))
}
