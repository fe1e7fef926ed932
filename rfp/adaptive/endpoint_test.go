package adaptive

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
)

// fake is a way whose calls take so long, or fail, by a clock that it moves.
type fake struct {
	now   *rfp.Time
	took  time.Duration
	err   error
	busy  bool
	calls int
	open  []rfp.Call
}

func (f *fake) Ready() bool { return !f.busy && f.err == nil }

func (f *fake) Send(q *rfp.Call) error {
	if f.err != nil {
		return f.err
	}
	if f.busy {
		return rfp.ErrBusy
	}
	f.calls++
	f.open = append(f.open, *q)
	return nil
}

func (f *fake) Poll(rfp.Time) int {
	n := len(f.open)
	for _, q := range f.open {
		*f.now += rfp.Time(f.took)
		q.Done(0, nil, nil)
	}
	f.open = f.open[:0]
	return n
}

// TestEndpoint sends calls of two types the way that is best for each.
func TestEndpoint(t *testing.T) {
	now := rfp.Time(1)
	a, b := &fake{now: &now, took: 3000}, &fake{now: &now, took: 1000}
	e, err := New(1, func() rfp.Time { return now }, a, b)
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	call := func(kind uint8) {
		t.Helper()
		want := uint64(ended) + 7
		if err := e.Send(&rfp.Call{Kind: kind, Tag: want, Done: func(tag uint64, _ []byte, err error) {
			if tag != want || err != nil {
				t.Errorf("tag %d, want %d, %v", tag, want, err)
			}
			ended++
		}}); err != nil {
			t.Fatal(err)
		}
		if n := e.Poll(now); n != 1 {
			t.Fatalf("%d calls ended", n)
		}
	}
	for range 3000 {
		call(1)
	}
	if e.Chooser(1).Best() != 1 || a.calls > 300 || ended != 3000 {
		t.Errorf("best %d, %d and %d calls", e.Chooser(1).Best(), a.calls, b.calls)
	}
	a.took, b.took = b.took, a.took
	for range 500 {
		call(2)
	}
	if e.Chooser(2).Best() != 0 || e.Chooser(1).Best() != 1 {
		t.Errorf("best %d and %d", e.Chooser(2).Best(), e.Chooser(1).Best())
	}
	if n := testing.AllocsPerRun(100, func() {
		_ = e.Send(&rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {}})
		e.Poll(now)
	}); n > 1 { // the test's own
		t.Errorf("%v allocations", n)
	}
}

// TestWaysEnd holds that calls go another way when one has ended, while it learns and later, and
// that the last error comes when there is none left.
func TestWaysEnd(t *testing.T) {
	gone := errors.New("gone")
	for _, after := range []int{0, 20, 2000} {
		now := rfp.Time(1)
		ways := []*fake{{now: &now, took: 1000}, {now: &now, took: 2000}, {now: &now, took: 3000}}
		e, err := New(1, func() rfp.Time { return now }, ways[0], ways[1], ways[2])
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		q := rfp.Call{Kind: 1, Done: func(uint64, []byte, error) { ended++ }}
		send := func(n int) {
			t.Helper()
			for range n {
				if err := e.Send(&q); err != nil {
					t.Fatal(err)
				}
				e.Poll(now)
			}
		}
		send(after)
		ways[0].err = gone
		send(20_000)
		if ended != after+20_000 || e.Chooser(1).Best() != 1 {
			t.Errorf("after %d: %d calls ended, best %d", after, ended, e.Chooser(1).Best())
		}
		ways[1].busy, ways[2].busy = true, true
		if err := e.Send(&q); !errors.Is(err, rfp.ErrBusy) || e.Ready() {
			t.Errorf("all busy: %v", err)
		}
		ways[1].busy, ways[2].busy = false, false
		send(10)
	}
	if _, err := New(1, nil); !errors.Is(err, ErrConfig) {
		t.Errorf("no ways: %v", err)
	}
}
