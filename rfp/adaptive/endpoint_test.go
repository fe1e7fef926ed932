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
	fails error // of its calls
	// refuses is why a ready way takes no call.
	refuses error
	calls   int
	refused int
	open    []rfp.Call
}

func (f *fake) Ready() bool { return !f.busy && f.err == nil }

func (f *fake) Send(q *rfp.Call) error {
	if f.err != nil {
		return f.err
	}
	if f.busy {
		return rfp.ErrBusy
	}
	if f.refuses != nil {
		f.refused++
		return f.refuses
	}
	f.calls++
	f.open = append(f.open, *q)
	return nil
}

func (f *fake) Poll(rfp.Time) int {
	n := len(f.open)
	for _, q := range f.open {
		*f.now += rfp.Time(f.took)
		q.Done(0, nil, f.fails)
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

// TestNoWay holds the error of a call that no way takes: ErrBusy as long as one of them may take
// calls again, the ends' own error when all have ended, and a ready way's reason to refuse the
// call.
func TestNoWay(t *testing.T) {
	gone, large := errors.New("gone"), errors.New("too large")
	dead, busy, bad := fake{err: gone}, fake{busy: true}, fake{refuses: large}
	full := fake{refuses: rfp.ErrBusy} // it was ready, and is not when the call comes
	for name, c := range map[string]struct {
		ways []fake
		want error
	}{
		"one, busy": {[]fake{busy}, rfp.ErrBusy}, "one, ended": {[]fake{dead}, gone},
		"all busy": {[]fake{busy, busy}, rfp.ErrBusy}, "all ended": {[]fake{dead, dead}, gone},
		"first ended":      {[]fake{dead, busy}, rfp.ErrBusy},
		"last ended":       {[]fake{busy, dead}, rfp.ErrBusy},
		"too large, ended": {[]fake{bad, dead}, large},
		"busy, too large":  {[]fake{busy, bad}, large},
		"too large, full":  {[]fake{bad, full}, large},
		"full, too large":  {[]fake{full, bad}, large},
	} {
		now, ways := rfp.Time(1), []Way{}
		for i := range c.ways {
			ways = append(ways, &c.ways[i])
		}
		e, err := New(1, func() rfp.Time { return now }, ways...)
		if err != nil {
			t.Fatal(err)
		}
		err = e.Send(&rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {
			t.Errorf("%s: Done of a call that was not taken", name)
		}})
		if err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestFailures holds what failed calls say of their way: an error of the handler came in its time,
// any other one counts as a slow call however fast it came.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		fails error
		took  time.Duration
		mean  time.Duration
	}{
		{nil, 500, 500}, {rfp.RemoteError("no luck"), 500, 500},
		{rfp.ErrDeadline, 500, time.Millisecond}, {rfp.ErrDeadline, time.Second, time.Second},
	} {
		now := rfp.Time(1)
		way := &fake{now: &now, took: c.took, fails: c.fails}
		other := &fake{now: &now, took: 2000}
		e, err := New(1, func() rfp.Time { return now }, way, other)
		if err != nil {
			t.Fatal(err)
		}
		for range turns * 2 * turnCalls {
			err := e.Send(&rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {}})
			if err != nil {
				t.Fatal(err)
			}
			e.Poll(now)
		}
		want := 0
		if c.mean > other.took {
			want = 1
		}
		if k := e.Chooser(1); k.Mean(0) != c.mean || k.Mean(1) != other.took || k.Best() != want {
			t.Errorf("%v after %v: means %v and %v, best %d, want %v, %v and %d", c.fails, c.took,
				k.Mean(0), k.Mean(1), k.Best(), c.mean, other.took, want)
		}
	}
}

// TestMostWays holds the largest number of ways.
func TestMostWays(t *testing.T) {
	ways := make([]Way, MaxWays+1)
	for i := range ways {
		ways[i] = &fake{}
	}
	e, err := New(1, nil, ways[:MaxWays]...)
	if err != nil {
		t.Fatal(err)
	}
	e.Chooser(1).Ended(MaxWays, 1) // of no way
	if _, err := New(1, nil, ways...); !errors.Is(err, ErrConfig) {
		t.Errorf("%d ways: %v, want ErrConfig", len(ways), err)
	}
}

// TestApart holds that types, and endpoints of different seeds, probe at different times.
func TestApart(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(4) {
		e, err := New(seed, nil, &fake{}, &fake{})
		if err != nil {
			t.Fatal(err)
		}
		for kind := range uint8(4) {
			c := e.Chooser(kind)
			teach(c, 1000, 1000)
			seen[gap(c, 0, 1000, 1000)] = true
		}
	}
	if len(seen) < 14 {
		t.Errorf("16 choosers have %d times of their first probe", len(seen))
	}
}

// trio is an endpoint with three ways of one clock, and a function that makes calls.
func trio(t *testing.T, took ...time.Duration) (e *Endpoint, ways []*fake, send func(n int)) {
	now := new(rfp.Time)
	var list []Way
	for _, d := range took {
		f := &fake{now: now, took: d}
		ways, list = append(ways, f), append(list, f)
	}
	e, err := New(1, func() rfp.Time { return *now }, list...)
	if err != nil {
		t.Fatal(err)
	}
	return e, ways, func(n int) {
		t.Helper()
		for range n {
			if err := e.Send(&rfp.Call{Kind: 1, Done: func(uint64, []byte, error) {}}); err != nil {
				t.Fatal(err)
			}
			e.Poll(*now)
		}
	}
}

// TestReadyWayRefuses holds that a way is left which is ready and takes no call, whenever that
// begins, and that it is found again when it takes calls again.
func TestReadyWayRefuses(t *testing.T) {
	for _, after := range []int{0, 20, 2000} {
		e, ways, send := trio(t, 1000, 2000, 3000)
		send(after)
		ways[0].refuses = errors.New("not now")
		send(20_000)
		k := e.Chooser(1)
		if k.Best() != 1 || ways[0].refused > 1000 || ways[1].calls < 17_000 {
			t.Errorf("after %d: best %d, %d refused, %d went the second way", after, k.Best(),
				ways[0].refused, ways[1].calls)
		}
		ways[0].refuses = nil
		if send(100_000); k.Best() != 0 {
			t.Errorf("after %d: best %d once the first way takes calls again", after, k.Best())
		}
	}
}

// TestNobodyTakes holds that calls which no way takes change nothing: in a probe they leave room
// for its calls, and what is known of the ways stays.
func TestNobodyTakes(t *testing.T) {
	e, ways, send := trio(t, 1000, 2000, 3000)
	k := e.Chooser(1)
	large := errors.New("too large")
	refused := func() {
		t.Helper()
		means := []time.Duration{k.Mean(0), k.Mean(1), k.Mean(2)}
		for _, w := range ways {
			w.refuses = large
		}
		for range 3 * turnCalls {
			if err := e.Send(&rfp.Call{Kind: 1, Done: nil}); !errors.Is(err, large) {
				t.Fatal(err)
			}
		}
		for i, w := range ways {
			if w.refuses = nil; k.Mean(i) != means[i] {
				t.Errorf("way %d: a mean of %v, before %v", i, k.Mean(i), means[i])
			}
		}
	}
	refused() // while it learns
	for k.trying < 0 {
		send(1)
	}
	refused() // in a probe
	for range 10 {
		if send(probed); k.trying >= 0 {
			t.Fatal("a probe has no end")
		}
		for k.trying < 0 {
			send(1)
		}
	}
	if k.Best() != 0 {
		t.Errorf("best %d", k.Best())
	}
}
