package timely

import (
	"math"
	"testing"
)

// model returns a bottleneck of 25 Gbit/s with an idle round trip of 6 us and packets
// of 1000 bytes. Sessions have 32 credits, as a real session's default.
func model(cfg *Config) *bottleneck {
	return &bottleneck{cfg: cfg, link: 25e9 / 8, size: 1000, base: 6 * us, credits: 32,
		warm: 30_000 * us, end: 60_000 * us}
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
	check(t, b, 0.95, 0.95, 100*us)
}

// TestIncast: sessions that all begin at link rate share the link, and the queue
// stays short: the round trip's 99th percentile is below 150 us.
func TestIncast(t *testing.T) {
	for _, n := range []int{3, 20, 50, 100} {
		b := model(filled(t, Config{}))
		b.add(n, b.link, 0, us)
		b.run()
		check(t, b, 0.95, 0.95, 144*us)
		// The credits alone bound the queue, which makes the first round trips.
		if most := b.delay(100); most > int64(n*b.credits)*b.duration(b.link) {
			t.Errorf("%d sessions: a packet waited %d ns", n, most)
		}
	}
}

// TestNewcomer: a session that comes late, at link rate, gets its share and no more.
func TestNewcomer(t *testing.T) {
	b := model(filled(t, Config{}))
	b.add(20, b.link, 0, us)
	b.add(1, b.link, 20_000*us, 0)
	b.warm, b.end = 60_000*us, 90_000*us
	b.run()
	r := b.rates()
	if share := r[20] * 21 / b.link; math.Abs(share-1) > 0.2 {
		t.Errorf("the newcomer got %.2f of its share", share)
	}
	check(t, b, 0.95, 0.95, 144*us)
}

// TestNoisyRoundTrips: measurements that are up to 10 us too long change little.
func TestNoisyRoundTrips(t *testing.T) {
	b := model(filled(t, Config{}))
	b.jitter = 10 * us
	b.add(20, b.link, 0, us)
	b.run()
	check(t, b, 0.95, 0.95, 144*us)
}

// TestOtherLinks: the defaults do on links of 10 and 100 Gbit/s as well.
func TestOtherLinks(t *testing.T) {
	for _, gigabits := range []float64{10, 100} {
		b := model(filled(t, Config{}))
		b.link = gigabits * 1e9 / 8
		b.base = 20 * us
		b.warm, b.end = 20_000*us, 40_000*us
		b.add(20, b.link, 0, us)
		b.run()
		check(t, b, 0.95, 0.95, 144*us)
	}
}

// TestLongPath: the length of a path is not taken for congestion. A single session
// fills what its credits allow.
func TestLongPath(t *testing.T) {
	b := model(filled(t, Config{}))
	b.base, b.credits = 300*us, 0
	b.add(2, b.link/4, 0, 0)
	b.warm, b.end = 400_000*us, 500_000*us
	b.run()
	check(t, b, 0.95, 0.95, 144*us)
}

// TestPaperIsStable: the published rule keeps the queue bounded as well, but promises
// neither fairness nor a full link.
func TestPaperIsStable(t *testing.T) {
	for _, n := range []int{2, 20, 100} {
		b := model(filled(t, Config{Variant: Paper}))
		b.add(n, b.link, 0, us)
		b.run()
		check(t, b, 0, 0.5, 144*us)
	}
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
