package timely

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// haiSteps is how many steps at a time hyperactive increase makes (TIMELY,
// section 4.3: N = 5).
const haiSteps = 5

// stepRefs bounds the time of one step of Patched, in units of RTTRef.
const stepRefs = 4

// Control is the controller of one session. One goroutine at a time uses it.
type Control struct {
	cfg  *Config
	link float64 // highest rate, bytes/s
	rate float64 // bytes/s

	prevRTT  time.Duration // last sample; 0 before the first
	prevTime monotime.Time // when prevRTT came
	diff     float64       // moving average of the difference of two samples in a row, ns
	falling  uint16        // samples in a row without a rising round trip, at most HAIAfter
}

// New returns a controller at linkRate, bytes per second. It keeps c, which Fill has
// returned and nobody changes: all sessions share one. A linkRate below c.MinRate
// takes its place as least rate; one that is not a positive number is taken for
// c.MinRate.
func New(c *Config, linkRate float64) *Control {
	if !(linkRate > 0) {
		linkRate = c.MinRate
	}
	linkRate = min(linkRate, math.MaxFloat64)
	return &Control{cfg: c, link: linkRate, rate: linkRate}
}

// Rate returns the rate to keep to, bytes per second.
func (t *Control) Rate() float64 { return t.rate }

// Bypass returns the round trip up to which a session at link rate need not tell its
// samples: TLow, raised for a path whose least round trip is base. A base of 0 is
// unknown and raises nothing.
func (c *Config) Bypass(base time.Duration) time.Duration {
	if s := c.shift(base); s <= math.MaxInt64-c.TLow {
		return c.TLow + s
	}
	return math.MaxInt64
}

// shift returns by how much the thresholds rise for a path of base.
func (c *Config) shift(base time.Duration) time.Duration {
	if base <= c.BaseRTT {
		return 0
	}
	return base
}

// unit returns the round trip in ns that the gradient is measured in.
func (c *Config) unit(base time.Duration) float64 {
	if c.Variant == Paper && base <= c.BaseRTT {
		return float64(c.MinRTT)
	}
	return float64(max(c.MinRTT, base))
}

// OnAck takes one round trip: at time now a packet's answer came, rtt after the packet
// was sent, without the server's hold time; 0 or less is not measured and changes
// nothing. base is the least round trip of the session, 0 if unknown. The packet's
// size and its congestion mark play no part.
//
// It returns the rate in bytes per second and the bypass limit, see [Config.Bypass].
func (t *Control) OnAck(now monotime.Time, rtt, base time.Duration, bytes int, ce bool) (
	rate float64, bypass time.Duration) {
	c := t.cfg
	if rtt <= 0 {
		return t.rate, c.Bypass(base)
	}
	first := t.prevRTT == 0
	diff, dt := float64(rtt)-float64(t.prevRTT), elapsed(t.prevTime, now)
	t.prevRTT, t.prevTime = rtt, now
	if !first {
		unit := c.unit(base)
		t.diff = float64((1-c.Alpha)*t.diff) + float64(c.Alpha*diff)
		t.update(float64(rtt), t.diff/unit, dt, unit, float64(c.shift(base)))
	}
	return t.rate, c.Bypass(base)
}

// elapsed returns the ns from one time to another, 0 if time jumped back.
func elapsed(from, to monotime.Time) float64 {
	if to <= from {
		return 0
	}
	return float64(uint64(to) - uint64(from))
}

// update moves the rate. Times are ns; dt is the time since the last sample, and shift
// what the thresholds are raised by.
//
// Here and below, products are converted before they are added, so that no processor
// fuses the two and all compute the same bits.
func (t *Control) update(rtt, gradient, dt, unit, shift float64) {
	c := t.cfg
	low, high := float64(c.TLow)+shift, float64(c.THigh)+shift
	if c.Variant == Patched {
		ref := float64(c.RTTRef) + shift
		t.patched(rtt, low, high, ref, gradient, min(1, dt/max(unit, min(rtt, stepRefs*ref))))
		return
	}
	step := min(1, dt/unit)
	switch {
	case rtt < low:
		t.falling = 0
		t.change(0, c.AddRate*step)
	case rtt > high:
		t.falling = 0
		t.change(min(c.MaxDecrease, float64(c.Beta*step)*(1-high/rtt)), 0)
	case gradient > 0:
		t.falling = 0
		t.change(min(c.MaxDecrease, float64(c.Beta*step)*gradient), 0)
	case t.falling < uint16(c.HAIAfter):
		t.falling++
		t.change(0, c.AddRate*step)
	default:
		t.change(0, haiSteps*float64(c.AddRate*step))
	}
}

// patched is the rule of Patched. The step is the part of a round trip since the last
// sample, in [0, 1]: the samples of one round trip together make one step, for more
// would answer the same queue many times and swing. MaxDecrease bounds the whole
// step for the same reason. A round trip of more than stepRefs times RTTRef makes
// several steps: such a queue must go soon, and swings are the lesser evil.
//
// Above high the weight is 1: the published rule for that range, 1-high/rtt, would
// be hundreds of times weaker than the rule just below it.
func (t *Control) patched(rtt, low, high, ref, gradient, step float64) {
	c := t.cfg
	w := weight(gradient)
	switch {
	case rtt < low:
		t.change(0, c.AddRate*step)
		return
	case rtt > high:
		w = 1
	}
	part := min(c.MaxDecrease, float64(c.Beta*w)*((rtt-ref)/ref))
	t.change(part*step, float64(c.AddRate*step)*(1-w))
}

// weight returns how much the distance from RTTRef counts: not at all while round
// trips fall fast, alone while they rise fast, evenly at a gradient of 0.
func weight(gradient float64) float64 {
	return min(1, max(0, float64(2*gradient)+0.5))
}

// change takes part of the rate away and adds bytes per second. A negative part, of a
// round trip below RTTRef, gives.
func (t *Control) change(part, add float64) {
	t.set(float64(t.rate*(1-float64(part))) + float64(add))
}

// set keeps the rate between the least one and the link's, which wins if it is less.
func (t *Control) set(rate float64) {
	t.rate = min(t.link, max(rate, t.cfg.MinRate))
}

// OnTimeout takes that nothing was answered for a whole retransmission timeout: it
// halves the rate, and returns it in bytes per second.
func (t *Control) OnTimeout(now monotime.Time) (rate float64) {
	t.falling = 0
	t.set(t.rate / 2)
	return t.rate
}
