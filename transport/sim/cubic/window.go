package cubic

import (
	"math"
	"time"
)

// Constants of RFC 9438: section 4.6 and section 5 with C; alpha of section 4.3 follows.
const (
	scale  = 0.4 // C, segments per second^3
	kept   = 0.7 // beta
	reno   = 3 * (1 - kept) / (1 + kept)
	first  = 10 // segments (RFC 6928)
	least  = 2  // segments, after a loss
	growth = 1.5
)

// window is the congestion window of a flow, in segments. Times are since any fixed one.
type window struct {
	size      float64 // cwnd
	threshold float64 // ssthresh
	max       float64 // W_max
	prior     float64 // cwnd_prior: the size before the last loss
	estimate  float64 // W_est: what Reno would have
	k         float64 // seconds from begin until the window is max
	begin     time.Duration
}

func newWindow() window { return window{size: first, threshold: math.Inf(1)} }

// cubic returns W_cubic, t after the epoch began.
func (w *window) cubic(t time.Duration) float64 {
	x := t.Seconds() - w.k
	return float64(scale*x*x*x) + w.max
}

// acked grows the window for one segment that was answered at now, where a round trip takes rtt.
func (w *window) acked(now, rtt time.Duration) {
	if w.size < w.threshold {
		w.size++
		return
	}
	alpha := reno
	if w.estimate >= w.prior {
		alpha = 1
	}
	w.estimate += alpha / w.size
	t := now - w.begin
	if w.cubic(t) < w.estimate {
		w.size = max(w.size, w.estimate)
		return
	}
	target := min(max(w.cubic(t+rtt), w.size), growth*w.size)
	w.size += (target - w.size) / w.size
}

// lost takes notice of a loss at now, with so many segments under way.
func (w *window) lost(now time.Duration, flight float64) {
	w.prior = w.size
	if w.size < w.max {
		w.max = w.size * (1 + kept) / 2 // fast convergence, section 4.7
	} else {
		w.max = w.size
	}
	w.threshold = max(flight*kept, least)
	w.size, w.estimate, w.begin = w.threshold, w.threshold, now
	w.k = math.Cbrt(max(0, w.max-w.size) / scale)
}

// expired takes notice of a timeout at now: slow start begins again.
func (w *window) expired(now time.Duration, flight float64) {
	w.lost(now, flight)
	w.size = 1
}
