package erpc

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// leavingGap stops who leaves the loop vacant: it has looked whether somebody wants the loop, and
// has not said that it is vacant.
type leavingGap struct {
	entered, left *goCall // it wakes their callers meanwhile
}

func newGap() leavingGap {
	return leavingGap{&goCall{ended: make(chan bool)}, &goCall{ended: make(chan bool)}}
}

// open makes the gap, in the loop.
func (p leavingGap) open(r *Rpc) { r.handout.ended = append(r.handout.ended, p.entered, p.left) }

// pass runs fn while somebody is in the gap.
func (p leavingGap) pass(fn func()) {
	<-p.entered.ended
	fn()
	<-p.left.ended
}

// noTimer keeps the goroutine of a vacant loop from its timer: it looks at the loop when a value
// comes from what this returns, or when it is recalled.
func (g leadRig) noTimer() chan time.Time {
	c := make(chan time.Time)
	_ = g.loop.Post(func(*Rpc) { g.loop.lead.timer.C = c })
	return c
}

// soon fails the test if something that needs no timer does not come.
func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: nobody comes", what)
	}
}

// wants are ways to want a loop that somebody is just leaving vacant. Each returns when it has
// looked who runs the loop; done is closed when it has got what it wants.
var wants = map[string]func(g leadRig, done chan struct{}) error{
	"Post": func(g leadRig, done chan struct{}) error {
		return g.loop.Post(func(*Rpc) { close(done) })
	},
	"Start": func(g leadRig, done chan struct{}) error {
		return g.Start(leadEcho, nil, func([]byte, error) { close(done) })
	},
	"Close": func(g leadRig, done chan struct{}) error {
		for len(g.conn.woken) > 0 {
			<-g.conn.woken
		}
		go func() {
			_ = g.loop.Close()
			close(done)
		}()
		<-g.conn.woken
		return nil
	},
	"Waits": func(g leadRig, done chan struct{}) error {
		g.loop.Waits(1)
		if g.loop.Lead(func() bool { return true }) {
			return errors.New("a goroutine runs the loop beside another one")
		}
		looked := g.conn.look()
		go func() {
			<-looked
			g.loop.Waits(-1)
			close(done)
		}()
		return nil
	},
}

// callerLeaves has a caller run the loop, and fn run while it leaves that vacant. It reports false
// if the caller gave the loop back instead.
func (g leadRig) callerLeaves(t *testing.T, fn func()) (left bool) {
	t.Helper()
	p, me, passed := newGap(), gid.Current()|outside, make(chan struct{})
	var begun atomic.Bool
	go func() {
		defer close(passed)
		p.pass(func() {
			begun.Store(true)
			if left = g.rpc.owner.Load() == me; left {
				fn()
			}
		})
	}()
	if err := g.leads(t, leadEcho, t.Context(), func() { p.open(g.rpc) }); err != nil {
		t.Error(err)
	}
	if !begun.Load() {
		_ = g.loop.Post((*Rpc).GiveWay) // which hands out what p holds
	}
	<-passed
	return left
}

// TestWantedAsLeft: who wants the loop while its goroutine, or a caller, leaves it vacant, gets it,
// though it has seen somebody run the loop.
func TestWantedAsLeft(t *testing.T) {
	for name, want := range wants {
		t.Run(name, func(t *testing.T) {
			g, p, done := newLeadRig(t), newGap(), make(chan struct{})
			g.noTimer()
			g.alone()
			_ = g.loop.Post(p.open)
			p.pass(func() {
				if err := want(g, done); err != nil {
					t.Error(err)
				}
			})
			soon(t, "goroutine", done)
		})
		t.Run(name+"/caller", func(t *testing.T) {
			g, done := newLeadRig(t), make(chan struct{})
			g.noTimer()
			for left := false; !left; {
				left = g.callerLeaves(t, func() {
					if err := want(g, done); err != nil {
						t.Error(err)
					}
				})
			}
			soon(t, "caller", done)
		})
	}
}

// TestTimerAsLeft: a goroutine whose timer runs out while a caller leaves the loop vacant gets it.
func TestTimerAsLeft(t *testing.T) {
	g := newLeadRig(t)
	timer := g.noTimer()
	for left := false; !left; {
		left = g.callerLeaves(t, func() {
			for timer <- (time.Time{}); !g.loop.lead.wanted.Load(); {
				runtime.Gosched()
			}
		})
	}
	back := make(chan struct{})
	go func() {
		for g.loop.lead.wanted.Load() {
			runtime.Gosched()
		}
		close(back)
	}()
	soon(t, "timer", back)
}

// TestCloseLedAtOnce: a caller that runs a Loop makes at most one more pass after Close has begun.
func TestCloseLedAtOnce(t *testing.T) {
	const reads = 100 // of the clock, more than a pass
	for led := false; !led; {
		g := newLeadRig(t)
		var me uintptr
		var stands atomic.Int64 // when the caller's clock stopped
		var passes atomic.Int64 // or half ones, while it stands
		var after int
		clock := func() monotime.Time {
			if at := stands.Load(); at != 0 && gid.Current() == me && after < reads {
				if passes.Add(1); g.loop.closed.Load() {
					after++
				}
				return monotime.Time(at) // the call does not begin to last
			}
			return monotime.Now()
		}
		closed := make(chan error, 1)
		go func() {
			<-g.held
			stands.Store(int64(monotime.Now()))
			for led = true; led && passes.Load() < reads; runtime.Gosched() {
				led = g.rpc.owner.Load()&^outside == me
			}
			closed <- g.Close()
		}()
		err := g.leads(t, leadHold, context.Background(), func() {
			me, g.rpc.source = gid.Current(), clock
			g.lasts[leadHold].Store(false)
		})
		if err := errors.Join(<-closed, closeError(err)); err != nil {
			t.Error(err)
		}
		if after == reads {
			t.Error("the caller goes on")
		}
	}
}

// closeError returns nil for the error of a call whose Client was closed.
func closeError(err error) error {
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return errors.Join(errors.New("a call in a closed Loop"), err)
}

// TestLastsAsItEnds: a call of a caller that runs the loop ends in the pass in which it begins to
// last. Those behind it have their own answers.
func TestLastsAsItEnds(t *testing.T) {
	g := newLeadRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 5 {
		g.lasts[leadEcho].Store(false)
		if err := g.leads(t, leadEcho, ctx, g.cancelOnceTold); !errors.Is(err, ErrCancelled) {
			t.Fatal(err)
		}
		for i := range 4 {
			g.lasts[leadEcho].Store(true) // it waits for its context too, from the beginning
			req := []byte{'#', byte(i)}
			if got, err := g.Call(ctx, leadEcho, req); err != nil || !bytes.Equal(got, req) {
				t.Fatalf("got %q, %v; want %q", got, err, req)
			}
		}
	}
}

// cancelOnceTold ends the call that the caller is going to make, in the pass in which an
// epoch tells it that it lasts: timers run behind that.
func (g leadRig) cancelOnceTold() {
	g.conn.deaf = true
	var k *goCall
	var timer *Timer
	timer, _ = g.rpc.AfterFunc(0, func() {
		if f := g.rpc.fresh; k == nil {
			if k = f.young; k == nil {
				k = f.old
			}
		}
		if k != nil && k.freshAt == nil {
			g.conn.deaf = false
			g.rpc.cancel(k.id, ErrCancelled)
			return
		}
		_ = timer.Reset(0)
	})
}
