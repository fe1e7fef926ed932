package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// pass lets the time of a synctest bubble pass.
func pass(d time.Duration) { <-time.After(d) }

// openConfig has room for 1000 calls in flight and no warm-up.
func openConfig(f *fake, d time.Duration) Config {
	c := config(f.peer(false))
	c.Window, c.Warmup, c.Duration = 1000, 0, d
	return c
}

// openFake is an open loop in a synctest bubble: its calls have no network, its sleeps no
// file. Before each sleep hold, if it is not nil, may take time.
func openFake(c Config, f *fake, hold func()) *openLoop {
	return newOpenLoop(c, []echo.Conn{f}, func(d time.Duration) error {
		if hold != nil {
			hold()
		}
		pass(d)
		return nil
	})
}

// arrivals are the times of those that run makes within d, from its beginning.
func arrivals(gap func() time.Duration, d time.Duration) (list []time.Duration) {
	for at := gap(); ; {
		list = append(list, at)
		if at += gap(); at >= d {
			return list
		}
	}
}

// TestPoisson: gaps have the mean and the spread of a Poisson process's.
func TestPoisson(t *testing.T) {
	const rate, n = 20_000.0, 200_000
	gap := Arrivals{Rate: rate, Seed: 1}.gaps()
	sum, squares := 0.0, 0.0
	for range n {
		g := gap().Seconds() * rate
		sum += g
		squares += g * g
	}
	mean := sum / n
	spread := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean-1) > 0.01 || math.Abs(spread-1) > 0.02 {
		t.Errorf("mean %.4f and spread %.4f, want 1 and 1", mean, spread)
	}
	draw := func(seed uint64) []time.Duration {
		return arrivals(Arrivals{Rate: rate, Seed: seed}.gaps(), 100*time.Millisecond)
	}
	if a := draw(2); !slices.Equal(a, draw(2)) || slices.Equal(a, draw(3)) {
		t.Error("the same arrivals come from the same seed, and from no other")
	}
}

// TestOpen: the calls begin at their arrivals, however long others take, and no two requests
// are the same.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 30 * time.Millisecond
		var mu sync.Mutex
		seen := map[string]bool{}
		f := &fake{call: func(_ context.Context, request []byte) ([]byte, error) {
			mu.Lock()
			again := seen[string(request)]
			seen[string(request)] = true
			mu.Unlock()
			if again {
				return nil, errors.New("a request came twice")
			}
			pass(takes)
			return request, nil
		}}
		a := Arrivals{Rate: 2000, Seed: 5}
		want := arrivals(a.gaps(), 100*time.Millisecond)
		r, err := openFake(openConfig(f, 100*time.Millisecond), f, nil).measure(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		// A sleep lasts a tick at least, so a call may begin that much later.
		if r.Rpcs != int64(len(want)) || r.Conns != 1 || r.CPU != time.Second {
			t.Errorf("%d calls, want %d; %+v", r.Rpcs, len(want), r)
		}
		least, most := r.Hist.Min(), r.Hist.Max()
		if least < int64(takes)*999/1000 || most > int64(takes+tick)*1001/1000 {
			t.Errorf("latencies from %d to %d ns", least, most)
		}
		if r.Late.TotalCount() != r.Rpcs || r.Late.Max() > int64(tick)*1001/1000 {
			t.Errorf("late: %d calls, up to %d ns", r.Late.TotalCount(), r.Late.Max())
		}
		if end := want[len(want)-1] + takes; r.Elapsed < end || r.Elapsed > end+tick {
			t.Errorf("%v, want %v", r.Elapsed, end)
		}
	})
}

// TestNoOmission: a call that waits until another one makes room for it counts from its
// arrival. One call at a time, of 1 ms, for arrivals of every 100 us: each waits longer.
func TestNoOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = time.Millisecond
		f := &fake{call: func(_ context.Context, request []byte) ([]byte, error) {
			pass(takes)
			return request, nil
		}}
		a := Arrivals{Rate: 10_000, Seed: 9}
		c := openConfig(f, 20*time.Millisecond)
		c.Window = 1
		want := arrivals(a.gaps(), c.Duration)
		r, err := openFake(c, f, nil).measure(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		last := want[0] + tick + time.Duration(len(want))*takes - want[len(want)-1]
		if got := time.Duration(r.Hist.Max()); got < (last-2*tick)*99/100 || got > last*101/100 {
			t.Errorf("the last of %d calls took %v, want %v", len(want), got, last)
		}
	})
}

// TestLateLoop: delays of the loop itself count too.
func TestLateLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck = 50 * time.Millisecond
		f := &fake{call: right}
		var once sync.Once
		hold := func() { once.Do(func() { pass(stuck) }) }
		a := Arrivals{Rate: 5000, Seed: 4}
		first := a.gaps()()
		const d = 20 * time.Millisecond
		o := openFake(openConfig(f, d), f, hold)
		if err := o.run(t.Context(), a.gaps(), d, false); err != nil {
			t.Fatal(err)
		}
		least := stuck + max(first, tick) - first
		if o.hist.Max() < int64(least)*999/1000 || o.late.Max() < int64(least)*999/1000 {
			t.Errorf("latency %d, late %d ns, want %v", o.hist.Max(), o.late.Max(), least)
		}
		if want := len(arrivals(a.gaps(), d)); o.hist.TotalCount() != int64(want) {
			t.Errorf("%d calls, want %d: none is left out", o.hist.TotalCount(), want)
		}
	})
}

// TestOpenWarmup: its calls compare all of each response, and do not count.
func TestOpenWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := &fake{}
		f.call = func(_ context.Context, request []byte) ([]byte, error) {
			calls++
			return request, nil
		}
		c := openConfig(f, 10*time.Millisecond)
		c.Window, c.Warmup = 1, 10*time.Millisecond
		a := Arrivals{Rate: 1000, Seed: 4}
		r, err := openFake(c, f, nil).measure(t.Context(), a)
		warm := int64(calls) - r.Rpcs
		if want := len(arrivals(a.gaps(), c.Duration)); err != nil || r.Rpcs != int64(want) || warm < 1 {
			t.Errorf("%v, %d calls and %d before, want %d", err, r.Rpcs, warm, want)
		}
		f.call = func(_ context.Context, request []byte) ([]byte, error) {
			wrong := slices.Clone(request)
			wrong[len(wrong)/2]++
			return wrong, nil
		}
		c.Sizes = echo.Sizes{Request: 1000, Response: 1000}
		if _, err := openFake(c, f, nil).measure(t.Context(), a); err == nil {
			t.Error("a wrong byte in the middle: no error")
		}
	})
}

func TestOpenErrors(t *testing.T) {
	boom := errors.New("boom")
	a := Arrivals{Rate: 1000, Seed: 1}
	for name, tt := range map[string]struct {
		call echo.Call
		want string
	}{
		"a call fails": {func(context.Context, []byte) ([]byte, error) { return nil, boom }, "boom"},
		"short": {func(_ context.Context, request []byte) ([]byte, error) {
			return request[1:], nil
		}, "15 bytes"},
		"another's": {func(context.Context, []byte) ([]byte, error) {
			return make([]byte, 16), nil
		}, "differs"},
		"too slow": {func(_ context.Context, request []byte) ([]byte, error) {
			pass(2 * time.Minute)
			return request, nil
		}, "too large"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{call: tt.call}
			c := openConfig(f, time.Hour) // it ends early
			c.Window = 4
			begin := time.Now()
			_, err := openFake(c, f, nil).measure(t.Context(), a)
			if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(begin) > 10*time.Minute {
				t.Errorf("%s: %v after %v, want %q", name, err, time.Since(begin), tt.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		o := newOpenLoop(openConfig(&fake{}, time.Hour), nil, func(time.Duration) error { return boom })
		if _, err := o.measure(t.Context(), a); !errors.Is(err, boom) {
			t.Errorf("a timer that fails: %v", err)
		}
	})
	f := &fake{call: right}
	p := f.peer(false)
	p.Streams = true
	_, err := Open(t.Context(), config(p), a)
	if err == nil || !strings.Contains(err.Error(), "one goroutine") {
		t.Errorf("a stream: %v", err)
	}
	for _, rate := range []float64{0, -1, math.NaN()} {
		_, err := Open(t.Context(), config(f.peer(false)), Arrivals{Rate: rate})
		if err == nil || !strings.Contains(err.Error(), "calls per second") {
			t.Errorf("%v calls per second: %v", rate, err)
		}
	}
	if n := f.dialed.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestOpenCancelled: calls that wait for others do not hold the loop up.
func TestOpenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f := &fake{call: func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		c := openConfig(f, time.Hour)
		c.Window = 3
		_, err := openFake(c, f, nil).measure(ctx, Arrivals{Rate: 1000, Seed: 1})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	// Nor do calls that know nothing of contexts make it go on.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin, f := time.Now(), &fake{call: right}
		o := openFake(openConfig(f, 10*time.Second), f, nil)
		_, err := o.measure(ctx, Arrivals{Rate: 100, Seed: 1})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// TestOpenForReal: with this system's clock and timers, and connections that are closed.
func TestOpenForReal(t *testing.T) {
	for _, perCall := range []bool{false, true} {
		f := &fake{call: right}
		c := config(f.peer(perCall))
		c.Duration = 20 * time.Millisecond
		a := Arrivals{Rate: 5000, Seed: 3}
		r, err := Open(t.Context(), c, a)
		if err != nil {
			t.Fatal(err)
		}
		want := len(arrivals(a.gaps(), c.Duration))
		if r.Rpcs != int64(want) || r.Elapsed < c.Duration/2 {
			t.Errorf("%d calls in %v, want %d", r.Rpcs, r.Elapsed, want)
		}
		if n := f.dialed.Load(); n != f.closed.Load() || int(n) != r.Conns || (n == 1) == perCall {
			t.Errorf("%d connections, %d closed", n, f.closed.Load())
		}
	}
}

// TestSleeper: it never wakes too early.
func TestSleeper(t *testing.T) {
	s, err := newSleeper()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, d := range []time.Duration{-1, 0, 1, time.Microsecond, 3 * time.Millisecond} {
		begin := time.Now()
		if err := s.sleep(d); err != nil || time.Since(begin) < d {
			t.Errorf("%v: %v after %v", d, err, time.Since(begin))
		}
	}
}
