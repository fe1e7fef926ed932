package cctest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"pgregory.net/rapid"
)

// Run tests that the controllers of a keep to the contract, one subtest per case.
// minRate is their least rate, bytes per second; the rate of a link that is slower
// takes its place. Run counts allocations, so it must not run beside parallel tests.
func Run(t *testing.T, a cc.Algorithm, minRate float64) {
	if err := complete(a); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, Subject{New: a.New, MinRate: minRate}) })
	}
}

// cases is the suite. They take a testing.TB, so that the tests of this package can
// give them one that only records failures.
var cases = []struct {
	name string
	run  func(tb testing.TB, s Subject)
}{
	{"any sequence", func(tb testing.TB, s Subject) {
		rapid.Check(tb, func(t *rapid.T) { AnySequence(t, s) })
	}},
	{"sessions apart", func(tb testing.TB, s Subject) {
		rapid.Check(tb, func(t *rapid.T) {
			if err := s.apart(sequences().Draw(t, "sequence")); err != nil {
				t.Fatal(err)
			}
		})
	}},
	{"allocations", func(tb testing.TB, s Subject) { report(tb, s.allocations()) }},
}

func report(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

// complete says what a lacks.
func complete(a cc.Algorithm) error {
	switch {
	case a.Name == "":
		return errors.New("the algorithm has no name")
	case a.New == nil:
		return errors.New("the algorithm has no New")
	case a.New(1e9) == nil:
		return errors.New("a new controller is nil")
	}
	return nil
}

// apart says where a controller answers otherwise while another one works beside it:
// the two share something, or look at more than their arguments.
func (s Subject) apart(q Sequence) error {
	type answer struct {
		rate   float64
		bypass time.Duration
	}
	alone := make([]answer, len(q.Events))
	c := s.New(q.Link)
	for i, e := range q.Events {
		alone[i].rate, alone[i].bypass = e.tell(c)
	}
	c, other := s.New(q.Link), s.New(q.Link/2)
	for i, e := range q.Events {
		q.Events[len(q.Events)-1-i].tell(other)
		var got answer
		if got.rate, got.bypass = e.tell(c); got != alone[i] {
			return fmt.Errorf("event %d, %+v: beside another session the answer is %+v, alone it was %+v",
				i, e, got, alone[i])
		}
	}
	return nil
}

// allocations says whether calls allocate: answers with and without marks, round trips
// below, at and above all thresholds, timeouts and pauses. Each run makes all of these
// calls, for what AllocsPerRun returns is rounded down.
func (s Subject) allocations() error {
	c := s.New(1e9)
	const us = time.Microsecond
	var now cc.Time
	if n := testing.AllocsPerRun(1000, func() {
		for _, rtt := range []time.Duration{0, 5 * us, 40 * us, 200 * us, 1100 * us} {
			now = now.Add(60 * us)
			c.OnAck(now, rtt, 6*us, 1000, false)
			c.OnAck(now, rtt, 6*us, 1000, true)
		}
		c.OnTimeout(now)
		now = now.Add(time.Second)
		c.OnAck(now, 5*us, 6*us, 1000, false)
	}); n != 0 {
		return fmt.Errorf("%v allocations", n)
	}
	return nil
}
