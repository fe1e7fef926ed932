package swift

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc/cctest"
)

// script is a made-up session on a path that is longer by far.
func script(far time.Duration) cctest.Script {
	type span = time.Duration
	part := func(name string, n int64, every span, bytes int, rtt func(i span) span) cctest.Part {
		return cctest.Part{Name: name, N: n, Every: every, Event: func(i int64) cctest.Event {
			e := cctest.Event{RTT: rtt(span(i)), Base: 6*us + far, Bytes: bytes}
			if e.RTT > 0 {
				e.RTT += far
			}
			return e
		}}
	}
	return cctest.Script{
		part("idle", 3, 10*us, 1000, func(i span) span { return 6*us + i*100 }),
		part("a queue builds up", 20, 3*us, 1000, func(i span) span { return 10*us + i*7*us }),
		part("it stands", 12, 20*us, 4000, func(span) span { return 90 * us }),
		part("it falls and rises", 24, 8*us, 3000, func(i span) span { return 20*us + (i*i*13)%37*us }),
		part("incast", 12, 500*us, 1000, func(i span) span { return 900*us + i*100*us }),
		part("gone", 30, 5*us, 700, func(span) span { return 7 * us }),
		part("no samples", 2, 5*us, 1000, func(span) span { return 0 }),
		part("a long pause", 2, time.Second, 1000, func(span) span { return 52 * us }),
		part("it drains slowly", 20, 9*us, 9000, func(i span) span { return 150*us - i*5*us }),
	}
}

// TestGolden compares the rates of a script, to the last bit, with those in testdata:
// they are the same on all processors.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	for _, far := range []time.Duration{0, 300 * us} {
		c := New(filled(t, Config{}), 3.125e9)
		fmt.Fprintf(&b, "path longer by %d ns\n", far)
		line := func(e cctest.Event, rate float64, bypass time.Duration) string {
			return fmt.Sprintf("now %d rtt %d window's rate %s rate %s bypass %d", e.Now, e.RTT,
				cctest.Exact(c.full), cctest.Exact(rate), bypass)
		}
		script(far).Play(&b, "  ", c, line)
		for range 5 {
			fmt.Fprintf(&b, "  timeout\n    rate %s\n", cctest.Exact(c.OnTimeout(0)))
		}
	}
	cctest.Golden(t, "testdata/trace.txt", b.Bytes())
}
