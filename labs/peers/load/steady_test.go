package load

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestLowest: the fewest good calls in any span, not in those of a grid.
func TestLowest(t *testing.T) {
	const ms = time.Millisecond
	boom := errors.New("boom")
	var ends []End
	for at := 5 * ms; at < 1000*ms; at += 10 * ms {
		err := error(nil)
		if at > 330*ms && at < 430*ms { // ten calls fail
			err = boom
		}
		ends = append(ends, End{at, err})
	}
	for _, c := range []struct {
		from, to, span time.Duration
		want           int
	}{
		{0, 1000 * ms, 100 * ms, 0},
		{0, 1000 * ms, 200 * ms, 10},
		{0, 330 * ms, 100 * ms, 10},
		{500 * ms, 1000 * ms, 500 * ms, 50},
		{0, 1000 * ms, 1000 * ms, 90},
		{0, 10 * ms, 10 * ms, 1},
		{2000 * ms, 3000 * ms, 500 * ms, 0},
	} {
		if got := Lowest(ends, c.from, c.to, c.span); got != c.want {
			t.Errorf("%v to %v, spans of %v: %d, want %d", c.from, c.to, c.span, got, c.want)
		}
	}
}

// TestSteady: calls go on beside those that fail or hang, and each end is counted once.
func TestSteady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	boom := errors.New("boom")
	s := &Steady{Begun: time.Now(), Call: func(call context.Context, seq uint64) error {
		switch {
		case seq == 50:
			cancel()
		case seq%10 == 3:
			return boom
		case seq%10 == 4:
			<-call.Done()
			return call.Err()
		}
		return nil
	}}
	if err := s.Run(ctx, Arrivals{Rate: 5000, Seed: 1}, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	failed, late := 0, 0
	for _, e := range s.Ends() {
		switch {
		case errors.Is(e.Err, boom):
			failed++
		case errors.Is(e.Err, context.DeadlineExceeded):
			late++
		}
	}
	if n := len(s.Ends()); n < 51 || failed < 5 || late < 5 || s.Most() < 1 {
		t.Errorf("%d ends, %d failed, %d late", n, failed, late)
	}
	if n := s.Most(); n != 0 {
		t.Errorf("%d calls in flight at the end", n)
	}
}
