package dcqcn

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Bypass is the bypass limit: a session at link rate waits for a mark, whatever its
// round trips are.
const Bypass time.Duration = math.MaxInt64

// Control is the reaction point of one session. One goroutine at a time uses it.
type Control struct {
	cfg    *Config
	link   float64 // highest rate, bytes/s
	rate   float64 // current rate, bytes/s
	target float64 // rate before the last decrease, and what was added since, bytes/s
	alpha  float64 // estimate of congestion, in [0, 1]

	reacted    bool          // to a mark, at lastCNP
	lastCNP    monotime.Time // time of the last reaction
	alphaFrom  monotime.Time // alpha's current period began then
	raiseFrom  monotime.Time // and the increase timer's
	raiseBytes int64         // bytes in the byte counter's current period
	timerRuns  int32         // periods of the timer since the last decrease
	byteRuns   int32         // periods of the byte counter since then
}

// New returns a reaction point at linkRate, bytes per second. It keeps c, which Fill has
// returned and nobody changes: all sessions share one. A linkRate below c.MinRate
// takes its place as least rate; one that is not a positive number is taken for
// c.MinRate.
func New(c *Config, linkRate float64) *Control {
	if !(linkRate > 0) {
		linkRate = c.MinRate
	}
	linkRate = min(linkRate, math.MaxFloat64)
	return &Control{cfg: c, link: linkRate, rate: linkRate, target: linkRate, alpha: 1}
}

// Rate returns the rate to keep to, bytes per second.
func (d *Control) Rate() float64 { return d.rate }

// OnAck takes an answer: at time now a packet of so many bytes on the wire was
// answered, and ce says whether it met congestion. Round trips play no part.
//
// Timers are looked at here only; the periods that have passed since the last answer
// are made up for in bounded time. It returns the rate in bytes per second and
// [Bypass].
func (d *Control) OnAck(now monotime.Time, rtt, base time.Duration, bytes int, ce bool) (
	rate float64, bypass time.Duration) {
	if d.rate < d.link {
		d.decay(now)
		d.raise(now, bytes)
	}
	if ce && d.due(now) {
		d.cut(now)
	}
	return d.rate, Bypass
}

// due says whether a mark at time now is reacted to. If time has jumped back, the
// interval begins anew.
func (d *Control) due(now monotime.Time) bool {
	if !d.reacted {
		return true
	}
	d.lastCNP = min(d.lastCNP, now)
	return since(d.lastCNP, now) >= d.cfg.CNPInterval
}

// since returns the span from one time to a later one, or the longest duration if it
// is longer.
func since(from, to monotime.Time) time.Duration {
	return time.Duration(min(uint64(to)-uint64(from), math.MaxInt64))
}

// cut is the reaction to a mark, the paper's equation 1.
func (d *Control) cut(now monotime.Time) {
	d.reacted, d.lastCNP, d.alphaFrom = true, now, now
	d.target = d.rate
	d.set(d.rate * (1 - float64(d.alpha/2)))
	d.alpha = float64((1-d.cfg.Gain)*d.alpha) + d.cfg.Gain
	d.restart(now)
}

// restart begins with fast recovery.
func (d *Control) restart(now monotime.Time) {
	d.raiseFrom, d.raiseBytes, d.timerRuns, d.byteRuns = now, 0, 0, 0
}

// decay lets alpha fall by the periods that passed without a reaction: equation 2.
func (d *Control) decay(now monotime.Time) {
	span := d.cfg.AlphaInterval
	d.alphaFrom = min(d.alphaFrom, now)
	if n := since(d.alphaFrom, now) / span; n > 0 {
		d.alphaFrom = d.alphaFrom.Add(n * span)
		d.alpha *= power(1-d.cfg.Gain, int64(n))
	}
}

// power returns x to the n-th, with at most 63 rounds.
func power(x float64, n int64) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			y *= x
		}
		x *= x
	}
	return y
}

// raise makes the increases of the periods that passed, of the timer and of the
// byte counter.
func (d *Control) raise(now monotime.Time, bytes int) {
	span := d.cfg.IncreaseInterval
	d.raiseFrom = min(d.raiseFrom, now)
	if n := since(d.raiseFrom, now) / span; n > 0 {
		d.raiseFrom = d.raiseFrom.Add(n * span)
		d.increase(int64(n), &d.timerRuns)
	}
	d.raiseBytes += min(max(0, int64(bytes)), maxIncreaseBytes)
	if n := d.raiseBytes / d.cfg.IncreaseBytes; n > 0 {
		d.raiseBytes -= n * d.cfg.IncreaseBytes
		d.increase(n, &d.byteRuns)
	}
	if d.target >= d.link && d.link-d.rate <= d.cfg.AddRate {
		d.release()
	}
}

// release ends the control of the rate: the next mark meets a session that begins.
func (d *Control) release() {
	d.rate, d.target, d.alpha = d.link, d.link, 1
}

// oneByOne is how many periods at a time are computed each for itself.
const oneByOne = 32

// increase makes n increases of one of the two counters. The first are computed one by
// one. The others use the step that was reached: with d the distance from the rate to
// the target, and the step s, one increase makes (d+s)/2 of d, and n of them
// s + (d-s)/2^n.
func (d *Control) increase(n int64, runs *int32) {
	for range min(n, oneByOne) {
		if *runs < math.MaxInt32 {
			*runs++
		}
		d.target = min(d.link, d.target+d.step())
		d.set((d.rate + d.target) / 2)
	}
	n -= oneByOne
	if n <= 0 {
		return
	}
	*runs = int32(min(int64(*runs)+n, math.MaxInt32))
	s, gap := d.step(), d.target-d.rate
	target := d.target + float64(float64(n)*s)
	d.target = min(d.link, target)
	d.set(max(d.rate, min(d.target, target-s-float64((gap-s)*power(0.5, n)))))
}

// step returns what the next increase adds to the target: nothing in fast recovery,
// more and more when both counters are through with it. See the paper's pseudocode.
func (d *Control) step() float64 {
	f := int32(d.cfg.Stages)
	switch least := min(d.timerRuns, d.byteRuns); {
	case max(d.timerRuns, d.byteRuns) < f:
		return 0
	case least > f:
		return min(d.link, float64(d.cfg.HyperRate*float64(least-f)))
	}
	return min(d.link, d.cfg.AddRate)
}

// set keeps the rate between the least one and the link's, which wins if it is less.
func (d *Control) set(rate float64) {
	d.rate = min(d.link, max(rate, d.cfg.MinRate))
}

// OnTimeout takes that nothing was answered for a whole retransmission timeout: it
// halves the rate, without fast recovery to what it was, and returns it in bytes per
// second.
func (d *Control) OnTimeout(now monotime.Time) (rate float64) {
	d.set(d.rate / 2)
	d.target = d.rate
	d.alphaFrom = now
	d.restart(now)
	return d.rate
}
