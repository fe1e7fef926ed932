package erpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

const typeStuck = 90

// stuckRig is a server with a handler that does not look whether its client has gone.
func stuckRig(t *testing.T, cfg erpc.Config) (g *rig, addr string, release func()) {
	t.Helper()
	g = newRig(t, cfg)
	g.handle(t, typeStuck, func(context.Context, []byte) ([]byte, error) {
		g.started <- struct{}{}
		<-g.release
		return nil, nil
	})
	release = sync.OnceFunc(func() { close(g.release) })
	t.Cleanup(release)
	return g, g.serve(t, "127.0.0.1:0"), release
}

// stick makes n calls, which are given up when their handlers run.
func stick(t *testing.T, g *rig, c *erpc.Client, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := c.Call(ctx, typeStuck, []byte("x"))
			errs <- err
		}()
	}
	for range n {
		eventually(t, g.started, "a handler")
	}
	cancel()
	all(t, errs, n, erpc.ErrCancelled)
}

// TestStuckHandlers: calls that were given up while their handlers go on keep no other call
// waiting, however many they are.
func TestStuckHandlers(t *testing.T) {
	for _, c := range []struct{ stuck, others, slots int }{{1, 1, 1}, {8, 1, 8}, {200, 200, 8}} {
		t.Run(fmt.Sprint(c.stuck), func(t *testing.T) {
			checkLeaks(t)
			g, addr, release := stuckRig(t, erpc.Config{})
			client := dial(t, addr, erpc.Config{Slots: c.slots})
			stick(t, g, client, c.stuck)
			errs := make(chan error, c.others)
			for i := range c.others {
				go func() { errs <- echo(client, typeEchoInline, i, 10) }()
			}
			all(t, errs, c.others, nil)
			release()
			is(t, "a call when they have ended", echo(client, typeEcho, 1, 10), nil)
		})
	}
}

// TestStuckAtTheLimit: when no further session can be opened a call waits for a slot, and its error
// says that it was not sent. When a handler ends its slot is used again.
func TestStuckAtTheLimit(t *testing.T) {
	checkLeaks(t)
	g, addr, release := stuckRig(t, erpc.Config{})
	c := dial(t, addr, erpc.Config{Slots: 4, MaxSessions: 2})
	stick(t, g, c, 8)
	ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	_, err := c.Call(ctx, typeEcho, nil)
	is(t, "a call at the limit", err, erpc.ErrDeadline, erpc.ErrNotRun)
	cancel()
	waits := make(chan error, 1)
	go func() { waits <- echo(c, typeEcho, 1, 10) }()
	g.release <- struct{}{}
	is(t, "a call that waits", eventually(t, waits, "the call"), nil)
	release()
}

// TestStuckSlots: in a session of one's own requests go past a slot whose handler goes on. If all
// have such handlers requests wait until one of these ends, or to their deadline.
func TestStuckSlots(t *testing.T) {
	p := newErrPair(t, erpc.Config{Slots: 2})
	stick := func() {
		t.Helper()
		held := len(p.held)
		res := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) > held })
		is(t, "cancel", p.client.Cancel(res.id), nil)
	}
	stick()
	for range 4 {
		is(t, "a call", p.call(tEcho, 10).err, nil)
	}
	stick()
	start := p.net.now
	late := p.enqueue(tEcho, 10, 300*time.Millisecond)
	next := p.enqueue(tEcho, 10, 0)
	p.until(func() bool { return late.ends > 0 })
	is(t, "a call with a deadline", late.err, erpc.ErrDeadline)
	if took := p.net.now.Sub(start); took < 300*time.Millisecond || next.ends > 0 {
		t.Errorf("it ended after %v, %d others did", took, next.ends)
	}
	if n := p.server.Counters().Protocol.DropBusy; n > 0 {
		t.Errorf("%d packets came for slots with handlers", n)
	}
	start = p.net.now
	is(t, "respond", p.held[1].RespondBytes(nil), nil)
	p.until(func() bool { return next.ends > 0 })
	is(t, "the call behind it", next.err, nil)
	if took := p.net.now.Sub(start); took > 10*time.Millisecond {
		t.Errorf("it took %v to learn that a slot is free", took)
	}
	is(t, "respond", p.held[0].RespondBytes(nil), nil)
	p.close()
}
