package cctest

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

// steadyMin is the least rate of steady, bytes per second.
const steadyMin = 1e6

// steady is a plain controller that keeps the contract: it holds round trips near 20 us.
type steady struct {
	link, rate float64
	last       cc.Time
}

func newSteady(link float64) cc.Controller { return &steady{link: link, rate: link} }

func (s *steady) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	rate float64, bypass time.Duration) {
	if step := min(1, (float64(now)-float64(s.last))/float64(rtt)); rtt > 0 && now > s.last {
		part := min(0.5, max(0, 0.1*(float64(rtt)/20_000-1)))
		s.set(s.rate*(1-part*step) + 3e6*step)
	}
	s.last = now
	return s.rate, 20 * us
}

func (s *steady) OnTimeout(cc.Time) float64 {
	s.set(s.rate / 2)
	return s.rate
}

func (s *steady) set(rate float64) { s.rate = min(s.link, max(steadyMin, rate)) }

// broken does as steady but for what spoil changes in its answers.
type broken struct {
	steady
	before cc.Time // time of the last event
	rate   float64
	bypass time.Duration
	spoil  spoiler
}

// spoiler changes the answer to e.
type spoiler func(b *broken, e Event, rate *float64, bypass *time.Duration)

func spoilt(spoil spoiler) func(link float64) cc.Controller {
	return func(link float64) cc.Controller {
		return &broken{steady: steady{link: link, rate: link}, spoil: spoil}
	}
}

func (b *broken) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	rate float64, bypass time.Duration) {
	b.rate, b.bypass = b.steady.OnAck(now, rtt, base, bytes, ce)
	return b.answer(Event{Now: now, RTT: rtt, Base: base, Bytes: bytes, CE: ce})
}

func (b *broken) OnTimeout(now cc.Time) float64 {
	b.rate = b.steady.OnTimeout(now)
	rate, _ := b.answer(Event{Timeout: true, Now: now})
	return rate
}

func (b *broken) answer(e Event) (rate float64, bypass time.Duration) {
	b.spoil(b, e, &b.rate, &b.bypass)
	b.before = e.Now
	return b.rate, b.bypass
}

// fixed stays at its rate and notes what it is told.
type fixed struct {
	rate   float64
	bypass time.Duration
	told   []Event
}

func (f *fixed) OnAck(now cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	float64, time.Duration) {
	f.told = append(f.told, Event{Now: now, RTT: rtt, Base: base, Bytes: bytes, CE: ce})
	return f.rate, f.bypass
}

func (f *fixed) OnTimeout(cc.Time) float64 { return f.rate }

// algorithm always gives c.
func (f *fixed) algorithm() cc.Algorithm {
	return cc.Algorithm{Name: "fixed", Bypass: f.bypass, New: func(float64) cc.Controller { return f }}
}

// never is a bypass limit that only marks pass.
const never = math.MaxInt64
