package cubic

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Constants of RFC 9438, sections 4.3, 4.6 and 5.
const (
	scale  = 0.4 // C, packets per second^3
	kept   = 0.7 // beta
	reno   = 3 * (1 - kept) / (1 + kept)
	growth = 1.5 // at most, in a round trip
	least  = 2   // packets, after a loss
)

// Window is the congestion window of a flow, in packets. [New] makes one; its fields may be read.
type Window struct {
	Size      float64 // cwnd
	threshold float64 // ssthresh
	max       float64 // W_max
	prior     float64 // size before the last loss
	estimate  float64 // W_est: what Reno would have
	k         float64 // seconds from begin until the window is max
	begin     monotime.Time
}

// New returns a window of so many packets in slow start: it doubles in a round trip.
func New(size float64) Window { return Window{Size: size, threshold: math.Inf(1)} }

// at returns the cubic function, a time after the last loss.
func (w *Window) at(t time.Duration) float64 {
	x := t.Seconds() - w.k
	return float64(scale*x*x*x) + w.max
}

// Acked grows the window for n packets that were answered at now, where a round trip takes rtt.
func (w *Window) Acked(n float64, now monotime.Time, rtt time.Duration) {
	if w.Size < w.threshold {
		w.Size += n
		return
	}
	alpha := reno
	if w.estimate >= w.prior {
		alpha = 1
	}
	w.estimate += n * alpha / w.Size
	w.begin = min(w.begin, now) // time may jump back
	t := now.Sub(w.begin)
	if w.at(t) < w.estimate {
		w.Size = max(w.Size, w.estimate)
		return
	}
	target := min(max(w.at(t+rtt), w.Size), growth*w.Size)
	w.Size += (target - w.Size) * min(1, n/w.Size)
}

// Lost takes notice of a loss at now, when so many packets were under way: once for all of them.
func (w *Window) Lost(now monotime.Time, flight float64) {
	w.prior = w.Size
	if w.Size < w.max {
		w.max = w.Size * (1 + kept) / 2
	} else {
		w.max = w.Size
	}
	w.threshold = max(flight*kept, least)
	w.Size, w.estimate, w.begin = w.threshold, w.threshold, now
	w.k = math.Cbrt(max(0, w.max-w.Size) / scale)
}

// Expired takes notice of a timeout at now: the window is one packet, in slow start.
func (w *Window) Expired(now monotime.Time, flight float64) {
	w.Lost(now, flight)
	w.Size = 1
}
