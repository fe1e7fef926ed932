package dcqcn

import (
	"testing"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/cctest"
)

// model returns the test bed, marked with the thresholds of the DCQCN testbed but for a
// steeper slope.
func model() *cctest.Bottleneck {
	b := cctest.Testbed()
	b.Marking = cctest.RED{KMin: 5e3, KMax: 200e3, PMax: 0.1}
	b.Warm, b.End = cc.Time(60*ms), cc.Time(120*ms)
	return b
}

// TestTwoConverge: two sessions that begin far apart get equal rates.
func TestTwoConverge(t *testing.T) {
	cfg := filled(t, Config{})
	at := func(rate float64) cc.Algorithm {
		a := algorithm(cfg)
		a.New = func(link float64) cc.Controller {
			c := New(cfg, link)
			c.rate, c.target = rate, rate
			return c
		}
		return a
	}
	cctest.Converge(t, model(), at, cctest.Want{Jain: 0.95, Utilisation: 0.95, Delay99: 50 * us})
}

// shared holds the bounds for sessions that all begin at link rate.
var shared = cctest.Want{Jain: 0.95, Utilisation: 0.9, Delay99: 150 * us}

// TestIncast: sessions that all begin at link rate share the link, and the queue
// stays short.
func TestIncast(t *testing.T) {
	for _, n := range []int{3, 20, 50, 100} {
		cctest.Incast(t, model(), algorithm(filled(t, Config{})), n, shared)
	}
}

// TestPublishedSlope: with the published slope of 1 % as well.
func TestPublishedSlope(t *testing.T) {
	b := model()
	b.Marking.PMax = 0.01
	cctest.Incast(t, b, algorithm(filled(t, Config{})), 20, shared)
}
