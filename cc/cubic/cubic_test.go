package cubic

import (
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// grow answers a window's worth of segments in each round trip until a time.
func grow(w *Window, from, until monotime.Time, rtt time.Duration) monotime.Time {
	for now := from; ; {
		n := int(w.Size)
		for i := range n {
			at := now.Add(rtt * time.Duration(i) / time.Duration(n))
			if at >= until {
				return at
			}
			w.Acked(1, at, rtt)
		}
		now = now.Add(rtt)
	}
}

// TestGrowth: after a loss the window is that of RFC 9438, figure 1, within the round trip by which
// it is ahead: cwnd(t) = C (t - K)^3 + W_max.
func TestGrowth(t *testing.T) {
	const rtt = 50 * time.Millisecond
	w := New(10)
	w.Size = 2000
	w.Lost(0, 2000)
	k := math.Cbrt(2000 * 0.3 / 0.4)
	if w.Size != 1400 || w.max != 2000 || math.Abs(w.k-k) > 1e-9 {
		t.Fatalf("after a loss: %+v", w)
	}
	now := monotime.Time(0)
	for _, s := range []float64{1, 5, 10, k, 14, 20} {
		now = grow(&w, now, monotime.Time(s*1e9), rtt)
		low := 0.4*math.Pow(s-k-2*rtt.Seconds(), 3) + 2000
		high := 0.4*math.Pow(s-k+2*rtt.Seconds(), 3) + 2000
		if w.Size < low-1 || w.Size > high+1 {
			t.Errorf("after %v s: %.1f, want %.1f to %.1f", s, w.Size, low, high)
		}
	}
}

// TestRenoFriendly: on a short path the window grows as section 4.3 says: by alpha in a round trip
// up to what it was before the loss, then by one.
func TestRenoFriendly(t *testing.T) {
	const rtt = time.Millisecond
	w := New(10)
	w.Size = 40
	w.Lost(0, 40)
	now := grow(&w, 0, monotime.Time(20*rtt), rtt)
	if want := 28 + 20*9/17.0; math.Abs(w.Size-want) > 1 {
		t.Errorf("after 20 round trips: %.1f, want %.1f", w.Size, want)
	}
	grow(&w, now, monotime.Time(43*rtt), rtt)
	if want := 40 + 20.3; math.Abs(w.Size-want) > 2 {
		t.Errorf("after 43 round trips: %.1f, want %.1f", w.Size, want)
	}
}

// TestFastConvergence: a flow whose window has fallen since gives way (section 4.7), and a timeout
// begins with one segment.
func TestFastConvergence(t *testing.T) {
	w := New(10)
	w.Size = 100
	w.Lost(0, 100)
	w.Lost(monotime.Time(time.Second), 70)
	if math.Abs(w.max-70*0.85) > 1e-9 || math.Abs(w.Size-49) > 1e-9 {
		t.Errorf("after a second loss: %+v", w)
	}
	w.Expired(monotime.Time(2*time.Second), 49)
	if w.Size != 1 || math.Abs(w.threshold-34.3) > 1e-9 {
		t.Errorf("after a timeout: %+v", w)
	}
	w.Acked(1, monotime.Time(2*time.Second), time.Millisecond)
	if w.Size != 2 {
		t.Errorf("slow start: %+v", w)
	}
}
