package cctest

import (
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"pgregory.net/rapid"
)

// Event is one call of a controller: OnTimeout, or OnAck with the arguments of that
// name.
type Event struct {
	Timeout   bool
	Now       cc.Time
	RTT, Base time.Duration
	Bytes     int
	CE        bool
}

// tell makes the call. The bypass limit of a timeout is 0.
func (e Event) tell(c cc.Controller) (rate float64, bypass time.Duration) {
	if e.Timeout {
		return c.OnTimeout(e.Now), 0
	}
	return c.OnAck(e.Now, e.RTT, e.Base, e.Bytes, e.CE)
}

// Step is an event and what came of it.
type Step struct {
	Event
	Before float64       // rate before, bytes per second
	Rate   float64       // what the controller returned, bytes per second
	Bypass time.Duration // what it returned; 0 for a timeout
}

// Sequence is a link and what a session on it meets.
type Sequence struct {
	Link   float64 // bytes per second
	Events []Event
}

// Subject says how to test a controller.
type Subject struct {
	// New makes a controller at link, bytes per second, as [cc.Algorithm] says.
	New func(link float64) cc.Controller
	// MinRate is the least rate, bytes per second. The rate of a slower link takes
	// its place.
	MinRate float64
	// Each, if there is one, is called after each event: it says what is wrong with the
	// controller beyond the contract.
	Each func(cc.Controller, Step) error
}

// AnySequence draws a link and a sequence of events and fails t if a controller of s
// breaks the contract: whatever is told, nothing panics, the rate stays finite and
// within its bounds, and the bypass limit is not negative. If the controller has a
// method Rate() float64, that must begin at the link's rate and tell the same.
func AnySequence(t *rapid.T, s Subject) {
	if err := s.play(sequences().Draw(t, "sequence")); err != nil {
		t.Fatal(err)
	}
}

// play says where in the sequence a controller of s breaks the contract.
func (s Subject) play(q Sequence) (err error) {
	at := -1
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil && at >= 0 {
			err = fmt.Errorf("link %v, event %d, %+v: %w", q.Link, at, q.Events[at], err)
		}
	}()
	c, rate := s.New(q.Link), q.Link
	if err := differs(c, rate); err != nil {
		return err
	}
	for i, e := range q.Events {
		at = i
		step := Step{Event: e, Before: rate}
		step.Rate, step.Bypass = e.tell(c)
		rate = step.Rate
		if err := s.wrong(c, step, q.Link); err != nil {
			return err
		}
	}
	return nil
}

// differs says whether c tells another rate.
func differs(c cc.Controller, rate float64) error {
	if r, ok := c.(interface{ Rate() float64 }); ok && r.Rate() != rate {
		return fmt.Errorf("Rate() is %v, want %v", r.Rate(), rate)
	}
	return nil
}

// wrong says what is wrong with c after a step on link.
func (s Subject) wrong(c cc.Controller, step Step, link float64) error {
	if low := min(link, s.MinRate); !(step.Rate >= low && step.Rate <= link) {
		return fmt.Errorf("rate %v is not within %v and %v", step.Rate, low, link)
	}
	if step.Bypass < 0 {
		return fmt.Errorf("bypass limit %v is negative", step.Bypass)
	}
	if err := differs(c, step.Rate); err != nil || s.Each == nil {
		return err
	}
	return s.Each(c, step)
}

// AnyTime draws times that a session, a broken clock or a fuzzer would give.
func AnyTime() *rapid.Generator[cc.Time] {
	return rapid.Map(anyNanoseconds(), func(ns int64) cc.Time { return cc.Time(ns) })
}

// AnySpan draws durations of that kind.
func AnySpan() *rapid.Generator[time.Duration] {
	return rapid.Map(anyNanoseconds(), func(ns int64) time.Duration { return time.Duration(ns) })
}

func anyNanoseconds() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(-5, 5),
		rapid.Int64Range(0, 2_000_000),
		rapid.Int64Range(0, int64(100*time.Hour)),
		rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 1, math.MaxInt64}),
		rapid.Int64(),
	)
}

// sequences draws links of all speeds, and time that mostly goes on.
func sequences() *rapid.Generator[Sequence] {
	return rapid.Custom(func(t *rapid.T) Sequence {
		s := Sequence{Link: rapid.OneOf(rapid.Float64Range(1e5, 1e11),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64)).Draw(t, "link")}
		now := cc.Time(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "op") {
			case 0:
				s.Events = append(s.Events, Event{Timeout: true, Now: now})
				continue
			case 1, 2:
				now = AnyTime().Draw(t, "now")
			}
			dt := rapid.Int64Range(0, 200_000).Draw(t, "dt")
			now = now.Add(time.Duration(dt)) // may wrap: time jumps back
			rtt, base := AnySpan().Draw(t, "rtt"), AnySpan().Draw(t, "base")
			s.Events = append(s.Events, Event{Now: now, RTT: rtt, Base: base,
				Bytes: rapid.Int().Draw(t, "bytes"), CE: rapid.Bool().Draw(t, "ce")})
		}
		return s
	})
}
