package timely

import (
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/cctest"
)

// model returns the test bed. Only round trips show its queue.
func model() *cctest.Bottleneck {
	b := cctest.Testbed()
	b.Warm, b.End = cc.Time(30*ms), cc.Time(60*ms)
	return b
}

// at returns what makes controllers of cfg that begin at rate, bytes per second.
func at(cfg *Config) func(rate float64) cc.Algorithm {
	return func(rate float64) cc.Algorithm {
		a := algorithm(cfg)
		a.New = func(link float64) cc.Controller {
			c := New(cfg, link)
			c.rate = rate
			return c
		}
		return a
	}
}

// TestTwoConverge: two sessions that begin far apart get equal rates.
func TestTwoConverge(t *testing.T) {
	cctest.Converge(t, model(), at(filled(t, Config{})),
		cctest.Want{Jain: 0.95, Utilisation: 0.95, Delay99: 100 * us})
}

// shared holds the bounds for sessions: the round trip's 99th percentile is below 150 us.
var shared = cctest.Want{Jain: 0.95, Utilisation: 0.95, Delay99: 144 * us}

// TestIncast: sessions that all begin at link rate share the link, and the queue
// stays short.
func TestIncast(t *testing.T) {
	for _, n := range []int{3, 20, 50, 100} {
		cctest.Incast(t, model(), algorithm(filled(t, Config{})), n, shared)
	}
}

// TestNewcomer: a session that comes late, at link rate, gets its share and no more.
func TestNewcomer(t *testing.T) {
	b, a := model(), algorithm(filled(t, Config{}))
	b.Add(a, 20, b.Link, 0, us)
	b.Add(a, 1, b.Link, cc.Time(20*ms), 0)
	b.Warm, b.End = cc.Time(60*ms), cc.Time(90*ms)
	b.Run()
	r := b.Rates()
	if share := r[20] * 21 / b.Link; math.Abs(share-1) > 0.2 {
		t.Errorf("the newcomer got %.2f of its share", share)
	}
	b.Expect(t, shared)
}

// lengthened is the controller of a session that has met no round trip shorter than base.
type lengthened struct {
	*Control
	base time.Duration
}

func (l lengthened) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	float64, time.Duration) {
	return l.Control.OnAck(now, rtt, l.base, bytes, ce)
}

// TestNewcomerAtQueue: a session that has never met the queue empty gets its share and no more,
// though the queue looks like its path.
func TestNewcomerAtQueue(t *testing.T) {
	cfg := filled(t, Config{})
	for _, n := range []int{20, 50} {
		b, a := model(), algorithm(cfg)
		b.Add(a, n, b.Link, 0, us)
		b.Run()
		least := b.BaseRTT + b.Delay(1)
		if least < cfg.TLow || least > cfg.BaseRTT {
			t.Fatalf("round trips of %v at least, which is not between the thresholds", least)
		}
		late := a
		late.New = func(link float64) cc.Controller { return lengthened{New(cfg, link), least} }
		b = model()
		b.Add(a, n, b.Link, 0, us)
		b.Add(late, 1, b.Link, cc.Time(20*ms), 0)
		b.Warm, b.End = cc.Time(60*ms), cc.Time(90*ms)
		b.Run()
		if share := b.Rates()[n] * float64(n+1) / b.Link; math.Abs(share-1) > 0.2 {
			t.Errorf("beside %d at round trips of %v the newcomer got %.2f of its share", n, least, share)
		}
	}
}

// TestNoisyRoundTrips: measurements that are up to 10 us too long change little.
func TestNoisyRoundTrips(t *testing.T) {
	b := model()
	b.Jitter = 10 * us
	cctest.Incast(t, b, algorithm(filled(t, Config{})), 20, shared)
}

// TestOtherLinks: the defaults do on links of 10 and 100 Gbit/s as well.
func TestOtherLinks(t *testing.T) {
	for _, gigabits := range []float64{10, 100} {
		b := model()
		b.Link = gigabits * 1e9 / 8
		b.BaseRTT = 20 * us
		b.Warm, b.End = cc.Time(20*ms), cc.Time(40*ms)
		cctest.Incast(t, b, algorithm(filled(t, Config{})), 20, shared)
	}
}

// TestLongPath: the length of a path is not taken for congestion. Without credits, which
// would not fill it.
func TestLongPath(t *testing.T) {
	b := model()
	b.BaseRTT, b.Credits = 300*us, 0
	b.Add(at(filled(t, Config{}))(b.Link/4), 2, b.Link/4, 0, 0)
	b.Warm, b.End = cc.Time(400*ms), cc.Time(500*ms)
	b.Run()
	b.Expect(t, shared)
}

// TestPaperIsStable: the published rule keeps the queue bounded as well, but promises
// neither fairness nor a full link.
func TestPaperIsStable(t *testing.T) {
	for _, n := range []int{2, 20, 100} {
		cctest.Incast(t, model(), algorithm(filled(t, Config{Variant: Paper})), n,
			cctest.Want{Utilisation: 0.5, Delay99: 144 * us})
	}
}
