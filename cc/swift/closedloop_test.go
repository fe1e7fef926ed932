package swift

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
			c.full, c.rate = rate, rate
			return c
		}
		return a
	}
}

// TestTwoConverge: two sessions that begin far apart get equal rates.
func TestTwoConverge(t *testing.T) {
	cctest.Converge(t, model(), at(filled(t, Config{})),
		cctest.Want{Jain: 0.95, Utilisation: 0.95, Delay99: 50 * us})
}

// shared holds the bounds for sessions: the round trip's 99th percentile is below 150 us.
var shared = cctest.Want{Jain: 0.95, Utilisation: 0.9, Delay99: 144 * us}

// TestIncast: sessions that all begin at link rate share the link, and the queue
// stays short.
func TestIncast(t *testing.T) {
	for _, n := range []int{3, 20, 50, 100} {
		cctest.Incast(t, model(), algorithm(filled(t, Config{})), n, shared)
	}
}

// TestBelowOnePacket: a thousand sessions have windows of a third of a packet each, which all
// begin at link rate. Without control the queue would be 10 ms.
func TestBelowOnePacket(t *testing.T) {
	b := model()
	b.Warm, b.End = cc.Time(100*ms), cc.Time(200*ms)
	cctest.Incast(t, b, algorithm(filled(t, Config{})), 1000,
		cctest.Want{Jain: 0.8, Utilisation: 0.75, Delay99: ms})
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
		cctest.Incast(t, b, algorithm(filled(t, Config{})), 20, shared)
	}
}

// TestLongPath: the length of a path is not taken for congestion. Without credits, which
// would not fill it.
func TestLongPath(t *testing.T) {
	b := model()
	b.BaseRTT, b.Credits = 300*us, 0
	b.Add(at(filled(t, Config{}))(b.Link/4), 2, b.Link/4, 0, 0)
	b.Warm, b.End = cc.Time(900*ms), cc.Time(1000*ms)
	b.Run()
	b.Expect(t, shared)
}

// TestSlowLink: a packet takes longer than the target on links of 10 and 100 Mbit/s. Few sessions
// fill them nevertheless, whether the path is short or long.
func TestSlowLink(t *testing.T) {
	for base, link := range map[time.Duration]float64{20 * us: 1.25e6, 2 * ms: 12.5e6} {
		for _, n := range []int{1, 5, 20} {
			b := model()
			b.Link, b.BaseRTT = link, base
			b.Warm, b.End = cc.Time(2*time.Second), cc.Time(4*time.Second)
			a := algorithm(filled(t, Config{}))
			b.Add(a, n, link, 0, us)
			b.Run()
			t.Logf("%v, %d: %.2f of the link, %.2f, %v", base, n, b.Utilisation(), cctest.Jain(b.Rates()),
				b.Delay(99))
			if b.Utilisation() < 0.8 || cctest.Jain(b.Rates()) < 0.9 {
				t.Errorf("not as it must be")
			}
		}
	}
}

// liar tells its controller other round trips than there are, as a peer can by its hold times.
type liar struct {
	*Control
	says func(rtt time.Duration) time.Duration
}

func (l liar) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (float64,
	time.Duration) {
	return l.Control.OnAck(now, l.says(rtt), base, bytes, ce)
}

// TestLies: a session whose round trips are said to be too long, or absurd, takes nothing from the
// others: they share the link, and all of it.
func TestLies(t *testing.T) {
	cfg := filled(t, Config{})
	n := 0
	for name, says := range map[string]func(time.Duration) time.Duration{
		"ten times": func(rtt time.Duration) time.Duration { return 10 * rtt },
		"for ever":  func(time.Duration) time.Duration { return math.MaxInt64 },
		"now and then": func(rtt time.Duration) time.Duration {
			if n++; n%50 == 0 {
				return time.Hour
			}
			return rtt
		},
		"none at all, now and then": func(rtt time.Duration) time.Duration {
			if n++; n%5 == 0 {
				return -time.Hour
			}
			return rtt
		},
	} {
		b, a := model(), algorithm(cfg)
		b.Add(a, 20, b.Link, 0, us)
		a.New = func(link float64) cc.Controller { return liar{New(cfg, link), says} }
		b.Add(a, 1, b.Link, 0, 0)
		b.Run()
		r := b.Rates()
		honest, fair := r[:20], b.Link/21
		if j := cctest.Jain(honest); j < 0.95 || b.Utilisation() < 0.95 || r[20] > 1.1*fair ||
			b.Delay(99) > 144*us {
			t.Errorf("%s: Jain's index of the others %.3f, %.3f of the link, the liar has %.2f "+
				"of a share, 99 %% wait up to %v", name, j, b.Utilisation(), r[20]/fair, b.Delay(99))
		}
		t.Logf("%s: %.3f of a fair share", name, r[20]/fair)
	}
}
