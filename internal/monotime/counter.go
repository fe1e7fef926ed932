package monotime

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// warmUp is how long the counter is compared with the system's clock before it is used.
	// Each comparison may be wrong by some 50 ns: 2 parts in a million of this time.
	warmUp = 50 * time.Millisecond
	// span is how long a scale holds. Then the two clocks are compared: so this bounds what a
	// counter that jumps can do.
	span = 10 * time.Millisecond
	// tolerance is how far the two may be apart after a span. The system's clock may be steered.
	tolerance = 100 * time.Microsecond
	// lag is how far behind the system's clock those stay that cannot wait for a comparison: far
	// enough that no scale, whose rate is wrong by at most the tolerance, gives an earlier time.
	lag        = 10 * tolerance
	checkEvery = 10 * time.Second // at the clock source
	maxPause   = time.Minute      // until a counter that was wrong is looked at again
)

// scale turns ticks into the time, from moment on until its end.
type scale struct {
	moment
	start Time   // the time at the moment, never before the system's
	span  uint64 // ticks
	mult  uint64 // ns per tick, 2^-32 ns
	end   Time   // the time when it ends: no reading is later
}

// read returns the time at t. It is not ok when the counter is past the end of the scale, or was
// set back.
func (s *scale) read(t uint64) (now Time, ok bool) {
	if d := t - s.ticks; d < s.span {
		return after(s.start, d, s.mult), true
	}
	return 0, false
}

// after returns the time d ticks after start, within a scale.
func after(start Time, d, mult uint64) Time {
	hi, lo := bits.Mul64(d, mult)
	return start + Time(hi<<32|lo>>32)
}

// board shows the scale to all that read the clock. Another one takes its place after each span, in
// the middle of the hot path, so nothing is allocated for it: there are two sheets, the scale is on
// the one that turn names, and the next one is written on the other. Who finds that turn has
// changed may have read parts of two.
type board struct {
	turn   atomic.Uint64
	sheets [2]sheet
}

// sheet is a scale that others may write while it is read.
type sheet struct{ ticks, time, slack, start, span, mult, end atomic.Uint64 }

// get returns the scale, with the turn that it has. Its span is 0 if there is none.
func (b *board) get() (s scale, turn uint64) {
	for {
		turn = b.turn.Load()
		p := &b.sheets[turn&1]
		s = scale{
			moment: moment{p.ticks.Load(), Time(p.time.Load()), p.slack.Load()},
			start:  Time(p.start.Load()), span: p.span.Load(), mult: p.mult.Load(),
			end: Time(p.end.Load()),
		}
		if b.turn.Load() == turn {
			return s, turn
		}
	}
}

// put shows another scale, or none. One caller at a time does.
func (b *board) put(s *scale) {
	turn := b.turn.Load() + 1
	p := &b.sheets[turn&1]
	p.ticks.Store(s.ticks)
	p.time.Store(uint64(s.time))
	p.slack.Store(s.slack)
	p.start.Store(uint64(s.start))
	p.span.Store(s.span)
	p.mult.Store(s.mult)
	p.end.Store(uint64(s.end))
	b.turn.Store(turn)
}

// read returns the time at t by a scale that is on the sheet.
func (p *sheet) read(t uint64) (now Time, ok bool) {
	if d := t - p.ticks.Load(); d < p.span.Load() {
		return after(Time(p.start.Load()), d, p.mult.Load()), true
	}
	return 0, false
}

// rest is what the time is made of while the counter is not used.
type rest struct {
	from  moment        // the counter is compared with the system's clock from here on
	floor Time          // what has been read by then, at most
	pause time.Duration // until the counter may be used
}

// time returns the time by the system's clock. If it is behind what has been read, time goes on at
// half its speed until it is not.
func (r *rest) time(system Time) Time {
	return max(system, r.floor+max(system-r.from.time, 0)/2)
}

// counter is a clock that reads a fast counter, as long as that agrees with the system's clock.
type counter struct {
	ticks  func() uint64
	system func() Time
	usable func() bool // whether the system takes its own time from the counter

	board
	rest atomic.Pointer[rest] // counts while there is no scale
	busy atomic.Bool          // somebody compares the clocks and may put; what follows is that one's

	base    moment // of mult
	mult    uint64
	checked Time // at usable
	pause   time.Duration
}

func newCounter(ticks func() uint64, system func() Time, usable func() bool) *counter {
	c := &counter{ticks: ticks, system: system, usable: usable, pause: warmUp}
	c.rest.Store(&rest{from: c.sample(), pause: warmUp})
	return c
}

// now reads the clock. Now is the same with the processor's counter.
func (c *counter) now() Time {
	turn := c.turn.Load()
	if now, ok := c.sheets[turn&1].read(c.ticks()); ok && c.turn.Load() == turn {
		return now
	}
	return c.slow()
}

// slow is now where the counter cannot tell the time: it is not used, or its scale has come to its
// end. Then one caller compares the clocks, and the others do not wait for it.
func (c *counter) slow() Time {
	for {
		s, turn := c.get()
		if s.span == 0 {
			r := c.rest.Load()
			now := c.system()
			if now.Sub(r.from.time) > r.pause && c.busy.CompareAndSwap(false, true) {
				c.begin(r)
				c.busy.Store(false)
			}
			return r.time(now)
		}
		t := c.ticks()
		now, ok := s.read(t)
		switch {
		case ok:
		case c.busy.CompareAndSwap(false, true):
			if c.turn.Load() == turn {
				now, ok = c.compare(&s)
			}
			c.busy.Store(false)
		case int64(t-s.ticks) >= 0:
			// Whatever comes of the comparison is not earlier. The scale may have ended long ago.
			return max(s.end, c.system()-Time(lag))
		default:
			runtime.Gosched() // the counter was set back, or this one is behind another processor's
		}
		if ok {
			return now
		}
	}
}

// begin uses the counter from now on, if the system does.
func (c *counter) begin(r *rest) {
	if s, _ := c.get(); s.span != 0 || c.rest.Load() != r {
		return
	}
	usable := c.usable()
	m := c.sample()
	c.base, c.checked, c.mult = m, m.time, scaleFrom(r.from, m)
	if !usable || c.mult == 0 {
		c.distrust(m, r.time(m.time))
		return
	}
	next := c.scale(m, r.time(m.time))
	c.put(&next)
}

// compare looks whether a scale that has come to its end was right, and puts the next one in its
// place, or the system's clock.
func (c *counter) compare(s *scale) (now Time, ok bool) {
	m := c.sample()
	passed, counted := m.time.Sub(s.time), int64(m.ticks-s.ticks)
	off := passed - ticksToTime(counted, c.mult)
	slack := ticksToTime(int64(s.slack), c.mult) + ticksToTime(int64(m.slack), c.mult)
	if off.Abs() > tolerance+slack+passed>>10 {
		c.distrust(m, s.end)
		return 0, false
	}
	if counted < 0 {
		return s.start, true // this processor's counter is a little behind that of another one
	}
	if now, ok := s.read(m.ticks); ok {
		return now, true
	}
	if m.time.Sub(c.base.time) > time.Second {
		if mult := scaleFrom(c.base, m); mult != 0 {
			c.base, c.mult = m, mult
		}
	}
	if m.time.Sub(c.checked) > checkEvery {
		if c.checked = m.time; !c.usable() {
			c.distrust(m, s.end)
			return 0, false
		}
	}
	next := c.scale(m, max(s.end, m.time))
	c.put(&next)
	return next.start, true
}

// distrust goes over to the system's clock from m on, for longer each time. No reading was later
// than floor.
func (c *counter) distrust(m moment, floor Time) {
	c.rest.Store(&rest{from: m, floor: floor, pause: c.pause})
	c.pause = min(2*c.pause, maxPause)
	c.put(&scale{})
}

// scale returns the scale that begins at m with the time start. If that is ahead of the system's
// clock, it runs slower, so that they meet at its end, but at half its speed at least.
func (c *counter) scale(m moment, start Time) scale {
	s := scale{moment: m, start: start}
	ahead := min(uint64(start-m.time), uint64(span/2))
	s.span, _ = bits.Div64(uint64(span)>>32, uint64(span)<<32, c.mult)
	s.mult = c.mult - c.mult*ahead/uint64(span)
	s.end = start + Time(ticksToTime(int64(s.span), s.mult))
	return s
}

// ticksToTime returns what d ticks are at a rate.
func ticksToTime(d int64, mult uint64) time.Duration {
	if d < 0 {
		return -ticksToTime(-(d + 1), mult) // one less, which does not overflow
	}
	hi, lo := bits.Mul64(uint64(d), mult)
	if hi >= 1<<31 {
		return 1<<63 - 1
	}
	return time.Duration(hi<<32 | lo>>32)
}

// moment is one reading of both clocks.
type moment struct {
	ticks uint64
	time  Time
	slack uint64 // ticks that passed between two readings of the counter around that of the time
}

// sample reads both clocks, the counter first: so what is counted from a moment is never
// before the system's time. It takes the quickest of some readings, since the thread may
// be stopped between the two.
func (c *counter) sample() (best moment) {
	for i := range 4 {
		m := moment{ticks: c.ticks(), time: c.system()}
		if m.slack = c.ticks() - m.ticks; i == 0 || m.slack < best.slack {
			best = m
		}
	}
	return best
}

// scaleFrom returns the ns per tick that two moments give, in 2^-32 ns, 0 if they make no sense.
func scaleFrom(a, b moment) (mult uint64) {
	dt, dn := b.ticks-a.ticks, b.time.Sub(a.time)
	// From 100 MHz to 100 GHz; it keeps Div64 from overflow too.
	if dn <= 0 || dt < uint64(dn)/10 || dt/100 > uint64(dn) {
		return 0
	}
	mult, _ = bits.Div64(uint64(dn)>>32, uint64(dn)<<32, dt)
	return mult
}

// Time is a point on a monotonic clock, in nanoseconds since a start that the clock
// chooses. Only differences between times of one clock mean anything. Clocks start
// above 0, so that a field may use 0 for what has not happened.
//
// Times of one clock are compared with the operators of the language.
type Time int64

// Never is a time that does not come: no other is later.
const Never Time = math.MaxInt64

// Add returns the time that is d after t, or before it if d is negative. It does not
// look for overflow: Never.Add(1) is long ago.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns the time from u to t, negative if t is the earlier one. It does not look
// for overflow either.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }
