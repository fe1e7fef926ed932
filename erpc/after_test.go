package erpc_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// alone is an endpoint without peers, whose clock the test moves.
func alone(tb testing.TB) (*erpc.Rpc, *memNet) {
	tb.Helper()
	net := newMemNet()
	net.tb = tb
	n, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Clock: net.Now, Seed: 5}})
	is(tb, "nexus", err, nil)
	r, err := n.NewRpc(net.end(true))
	is(tb, "rpc", err, nil)
	tb.Cleanup(func() {
		is(tb, "close", r.Close(), nil)
		is(tb, "close", n.Close(), nil)
	})
	return r, net
}

// TestAfterFunc compares timers that are set, reset and stopped at random with a list of what is
// due: each runs once, in order, in the first pass at its time or later, and NextWake has the time.
func TestAfterFunc(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, net := alone(t)
		type want struct {
			at    erpc.Time
			timer int
			no    int // of the call that set it
		}
		var timers []*erpc.Timer
		var due []want
		var ran []int
		calls := 0
		drop := func(i int) { due = slices.DeleteFunc(due, func(w want) bool { return w.timer == i }) }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			d := time.Duration(rapid.IntRange(-2, 20).Draw(rt, "d"))
			i := rapid.IntRange(0, len(timers)).Draw(rt, "timer")
			at := net.now.Add(max(d, 0))
			calls++
			switch what := rapid.IntRange(0, 3).Draw(rt, "what"); {
			case i == len(timers):
				timer, err := r.AfterFunc(d, func() { ran = append(ran, i) })
				is(t, "AfterFunc", err, nil)
				timers = append(timers, timer)
				due = append(due, want{at: at, timer: i, no: calls})
			case what == 0:
				is(t, "Stop", timers[i].Stop(), nil)
				drop(i)
			case what == 1:
				is(t, "Reset", timers[i].Reset(d), nil)
				drop(i)
				due = append(due, want{at: at, timer: i, no: calls})
			default:
				net.now = net.now.Add(max(d, 0))
				ran = nil
				is(t, "RunOnce", second(r.RunOnce()), nil)
				var now []want
				for _, w := range due {
					if w.at <= net.now {
						now = append(now, w)
					}
				}
				slices.SortFunc(now, func(a, b want) int { return int(a.at-b.at)*1000 + a.no - b.no })
				for k, w := range now {
					drop(w.timer)
					if k >= len(ran) || ran[k] != w.timer {
						rt.Fatalf("%v ran, want %+v", ran, now)
					}
				}
				if len(ran) != len(now) {
					rt.Fatalf("%v ran, want %+v", ran, now)
				}
			}
			for _, w := range due {
				if r.NextWake() > w.at {
					rt.Fatalf("the loop wakes up %v after a timer", r.NextWake().Sub(w.at))
				}
			}
			if len(due) == 0 && r.NextWake().Sub(net.now) < time.Hour {
				rt.Fatal("the loop wakes up for a timer that has gone")
			}
		}
	})
}

// TestAfterFuncInCallback: a timer's function may set it again, other timers too, and stop them.
// A timer that it sets to run at once runs in the next pass.
func TestAfterFuncInCallback(t *testing.T) {
	r, net := alone(t)
	var again, victim *erpc.Timer
	n, others := 0, 0
	again, err := r.AfterFunc(5, func() {
		n++
		is(t, "Stop", victim.Stop(), nil)
		is(t, "Reset", again.Reset(0), nil)
		is(t, "AfterFunc", second(r.AfterFunc(-1, func() { others++ })), nil)
	})
	is(t, "AfterFunc", err, nil)
	victim, err = r.AfterFunc(5, func() { t.Error("a stopped timer ran") })
	is(t, "AfterFunc", err, nil)
	net.now += 4
	for i, want := range [][2]int{{0, 0}, {1, 0}, {2, 1}, {3, 2}} {
		is(t, "RunOnce", second(r.RunOnce()), nil)
		if n != want[0] || others != want[1] {
			t.Errorf("pass %d: %d and %d calls, want %v", i, n, others, want)
		}
		net.now++
	}
}

// TestAfterFuncSends: requests that a timer's function enqueues leave in the same pass.
func TestAfterFuncSends(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	var res *result
	_, err := p.client.AfterFunc(0, func() { res = p.enqueue(tEcho, 10, 0) })
	is(t, "AfterFunc", err, nil)
	p.run(p.client)
	p.run(p.server)
	p.run(p.client)
	if res == nil || res.ends != 1 || res.err != nil {
		t.Errorf("the call of a timer: %+v", res)
	}
	p.close()
}

// TestAfterFuncErrors: bad use has names.
func TestAfterFuncErrors(t *testing.T) {
	r, net := alone(t)
	is(t, "no function", second(r.AfterFunc(1, nil)), erpc.ErrRequest)
	never := func() { t.Error("a timer ran that was for later") }
	far, err := r.AfterFunc(math.MaxInt64, never)
	is(t, "the longest time", err, nil)
	is(t, "RunOnce", second(r.RunOnce()), nil)
	if d := r.NextWake().Sub(net.now); d < time.Minute || d > time.Hour {
		t.Errorf("the loop sleeps for %v with a timer far away", d)
	}
	soon, err := r.AfterFunc(1, never)
	is(t, "AfterFunc", err, nil)
	if gid.Exact {
		errs := make(chan error, 3)
		is(t, "post", r.Post(func(*erpc.Rpc) {
			go func() {
				errs <- second(r.AfterFunc(1, never))
				errs <- far.Reset(1)
				errs <- far.Stop()
			}()
			for range 3 {
				is(t, "another goroutine", <-errs, erpc.ErrWrongThread)
			}
		}), nil)
		is(t, "RunOnce", second(r.RunOnce()), nil)
	}
	is(t, "close", r.Close(), nil)
	net.now += 10
	is(t, "RunOnce", second(r.RunOnce()), erpc.ErrClosed)
	is(t, "AfterFunc of a closed endpoint", second(r.AfterFunc(1, never)), erpc.ErrClosed)
	is(t, "Reset", soon.Reset(1), erpc.ErrClosed)
	is(t, "Stop", soon.Stop(), nil)
}

// TestAfterFuncWakes: a loop that sleeps wakes up for a timer.
func TestAfterFuncWakes(t *testing.T) {
	n, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep})
	is(t, "nexus", err, nil)
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	is(t, "listen", err, nil)
	r, err := n.NewRpc(tr)
	is(t, "rpc", err, nil)
	ticks := 0
	var tick *erpc.Timer
	tick, err = r.AfterFunc(0, func() {
		ticks++
		is(t, "Reset", tick.Reset(time.Millisecond), nil)
	})
	is(t, "AfterFunc", err, nil)
	guard := time.AfterFunc(hang, func() { _ = tr.Close() })
	is(t, "run", r.Run(func() bool { return ticks == 5 }), nil)
	guard.Stop()
	is(t, "close", errors.Join(r.Close(), n.Close()), nil)
}

// TestNoAllocationsTimer: a timer that sets itself again allocates nothing.
func TestNoAllocationsTimer(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	r, net := alone(t)
	ran := 0
	var again *erpc.Timer
	again, err := r.AfterFunc(1, func() {
		ran++
		_ = again.Reset(1)
	})
	is(t, "AfterFunc", err, nil)
	n := testing.AllocsPerRun(100, func() {
		net.now++
		_, _ = r.RunOnce()
	})
	if n != 0 || ran != 101 {
		t.Errorf("%v allocations for a timer, %d calls", n, ran)
	}
}
