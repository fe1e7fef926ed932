package erpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// padded makes a caller of requests with n further bytes.
func padded(c *erpc.Client, ctx context.Context, n int) caller {
	return func(typ uint8, req []byte) ([]byte, error) {
		got, err := c.Call(ctx, typ, append(req, make([]byte, n)...))
		return got[:min(len(got), len(req))], err
	}
}

// TestSmallBesideLarge: large requests that have not arrived keep no small call waiting, however
// many wait, and open few sessions; small calls without end keep no large one waiting.
func TestSmallBesideLarge(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	c, s := f.dial("s0"), f.servers[0]
	const larges, smalls = 200, 20
	large := f.calls(padded(c, bg, 200<<10), tEcho, 0, larges)
	f.round()
	f.all("a small call", f.calls(of(c), tEcho, larges, smalls), smalls, nil)
	if n := s.count - smalls; n > larges/4 {
		t.Errorf("the small calls ended after %d of %d large ones", n, larges)
	}
	if n := c.ClientSessions(); n > 8 {
		t.Errorf("%d sessions", n)
	}
	over := false
	again := func() {}
	again = func() {
		if err := c.Start(tEcho, id(larges), func([]byte, error) {
			if !over {
				again()
			}
		}); err != nil {
			t.Error(err)
		}
	}
	for range smalls {
		again()
	}
	f.all("a large call", large, larges, nil)
	over = true
	f.rounds(10 * time.Millisecond)
	f.once(0, larges)
}

// TestLargeHeldBack: large calls that wait until others have arrived can be given up, and end with
// their Client.
func TestLargeHeldBack(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	c, s := f.dial("s0"), f.servers[0]
	s.end.lose = func(pkt []byte) bool { return wire.Type(pkt[0]&15) == wire.TypeReq }
	const callers = 20
	ctx, cancel := context.WithCancel(bg)
	others := f.calls(padded(c, bg, 1<<20), tEcho, 0, callers)
	f.round()
	mine := f.calls(padded(c, ctx, 1<<20), tEcho, callers, callers)
	f.rounds(10 * time.Millisecond)
	cancel()
	for range callers {
		is(t, "a call that was given up", wait(f, mine, "it"), erpc.ErrCancelled, erpc.ErrNotRun)
	}
	s.die()
	for range callers {
		if wait(f, others, "a call of a server that is dead") == nil {
			t.Error("a call of a server that is dead succeeded")
		}
	}
	f.rounds(10 * time.Second)
	others = f.calls(padded(c, bg, 1<<20), tEcho, 0, callers)
	f.rounds(10 * time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	is(t, "close", wait(f, closed, "close"), nil)
	for range callers {
		if err := wait(f, others, "a call of a closed Client"); !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

// TestKeepSlots: other calls leave slots to those of StartInLoop, in the session that takes the
// place of one that is lost too.
func TestKeepSlots(t *testing.T) {
	checkLeaks(t)
	const slots, kept = 8, 2
	f := newFarm(t, 1, func(c erpc.Config) erpc.Config {
		c.Slots, c.MaxSessions = slots, 1
		return c
	})
	c, s := f.dial("s0"), f.servers[0]
	is(t, "keep", c.KeepSlots(100), nil) // a quarter of them
	for life := range 2 {
		ahead := make(chan error, kept)
		goAhead := func(want int) {
			for i := range uint64(kept) {
				is(t, "post", f.loop.Post(func(*erpc.Rpc) {
					err := c.StartInLoop(tHold, id(100+i), func(_ []byte, err error) { ahead <- err })
					is(t, "start", err, nil)
				}), nil)
			}
			f.holds(want)
		}
		others := slots - kept
		if life == 1 {
			goAhead(kept)
			others = slots
		}
		errs := f.calls(of(c), tHold, 0, slots)
		f.rounds(100 * time.Millisecond)
		if n := len(s.held); n != others {
			t.Fatalf("life %d: %d calls have slots, want %d", life, n, others)
		}
		if life == 0 {
			goAhead(slots)
		}
		f.answer()
		f.holds(kept) // those that waited
		f.answer()
		f.all("a call", errs, slots, nil)
		f.all("a call ahead", ahead, kept, nil)
		s.die()
		s.start(f.cfg)
		f.rounds(10 * time.Second) // it is missed
	}
}

// TestLargeSentAway: large calls that wait until others have arrived go elsewhere when the server
// is silent.
func TestLargeSentAway(t *testing.T) {
	f, w, c := newWatched(t)
	held := f.hold(of(c), 1)
	f.servers[0].mute, w.yes = true, true
	const callers = 20
	large := f.calls(padded(c, bg, 1<<20), tEcho, 100, callers)
	f.until("it is silent", func() bool { return w.silent == 1 })
	for range callers - 4 { // that have slots
		is(t, "a call that waited", wait(f, large, "it"), erpc.ErrNotRun)
	}
	f.servers[0].mute = false
	f.until("the call is answered", func() bool { f.answer(); return len(held) == 1 })
	f.all("a large call", large, 4, nil)
}
