package timely

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/cc/cctest"
)

// script is a made-up session on a path that is longer by far ns.
func script(far int64) cctest.Script {
	part := func(name string, n, every int64, rtt func(i int64) int64) cctest.Part {
		return cctest.Part{Name: name, N: n, Every: every, Event: func(i int64) cctest.Event {
			e := cctest.Event{RTT: rtt(i), Base: 6*us + far, Bytes: 1000}
			if e.RTT > 0 {
				e.RTT += far
			}
			return e
		}}
	}
	return cctest.Script{
		part("idle", 3, 10*us, func(i int64) int64 { return 6*us + i*100 }),
		part("a queue builds up", 20, 3*us, func(i int64) int64 { return 20*us + i*7*us }),
		part("it stands", 12, 20*us, func(int64) int64 { return 90 * us }),
		part("it falls and rises", 24, 8*us, func(i int64) int64 { return 60*us + (i*i*13)%37*us }),
		part("incast", 6, 50*us, func(i int64) int64 { return 900*us + i*100*us }),
		part("gone", 10, 5*us, func(int64) int64 { return 7 * us }),
		part("no samples", 2, 5*us, func(int64) int64 { return 0 }),
		part("a long pause", 2, 1_000_000*us, func(int64) int64 { return 52 * us }),
		part("it drains slowly", 20, 9*us, func(i int64) int64 { return 150*us - i*5*us }),
		part("near RTTRef", 12, 50*us, func(i int64) int64 { return 50*us + i%3*us }),
	}
}

// TestGolden compares the rates of a script, to the last bit, with those in testdata:
// they are the same on all processors.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	for _, far := range []int64{0, 300 * us} {
		for _, v := range []Variant{Patched, Paper} {
			c := New(filled(t, Config{Variant: v}), 3.125e9)
			fmt.Fprintf(&b, "%v, path longer by %d ns\n", v, far)
			script(far).Play(&b, "  ", c, func(e cctest.Event, rate float64, bypass int64) string {
				return fmt.Sprintf("now %d rtt %d rate %s bypass %d", e.Now, e.RTT, cctest.Exact(rate), bypass)
			})
			fmt.Fprintf(&b, "  timeout\n    rate %s\n", cctest.Exact(c.OnTimeout(0)))
		}
	}
	cctest.Golden(t, "testdata/trace.txt", b.Bytes())
}
