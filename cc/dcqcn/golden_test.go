package dcqcn

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc/cctest"
)

// script is a made-up session.
func script() cctest.Script {
	part := func(name string, n int64, every time.Duration, bytes int,
		ce func(i int64) bool) cctest.Part {
		return cctest.Part{Name: name, N: n, Every: every, Event: func(i int64) cctest.Event {
			return cctest.Event{RTT: 1, Base: 1, Bytes: bytes, CE: ce(i)}
		}}
	}
	never, always := func(int64) bool { return false }, func(int64) bool { return true }
	return cctest.Script{
		part("no marks", 2, 10*us, 1000, never),
		part("all marked", 40, 10*us, 1000, always),
		part("fast recovery", 30, 13*us, 1000, never),
		part("some marks", 40, 11*us, 1000, func(i int64) bool { return i*i%7 == 1 }),
		part("large packets", 30, 29*us, 1_900_000, never),
		part("marks again", 10, 50*us, 9000, always),
		part("a pause", 2, 3*ms, 1000, never),
		part("a mark", 1, 5*us, 1000, always),
		part("a long pause", 1, time.Second, 1000, never),
		part("back at link rate", 4, 60*us, 1000, always),
	}
}

// TestGolden compares the rates of a script, to the last bit, with those in testdata:
// they are the same on all processors.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	c := New(filled(t, Config{}), 3.125e9)
	script().Play(&b, "", c, func(e cctest.Event, rate float64, _ time.Duration) string {
		return fmt.Sprintf("now %d bytes %d marked %t: rate %s target %s alpha %s", e.Now, e.Bytes, e.CE,
			cctest.Exact(rate), cctest.Exact(c.target), cctest.Exact(c.alpha))
	})
	fmt.Fprintf(&b, "timeout\n  rate %s\n", cctest.Exact(c.OnTimeout(2_000_000_000)))
	cctest.Golden(t, "testdata/trace.txt", b.Bytes())
}
