package erpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// typeWatch is a Func that hands its context out, and waits until it has ended.
const typeWatch = 20

// newWatcher is a rig with typeWatch.
func newWatcher(t *testing.T, cfg erpc.Config) (*rig, chan context.Context) {
	t.Helper()
	checkLeaks(t)
	g := newRig(t, cfg)
	seen := make(chan context.Context, 10)
	g.handle(t, typeWatch, func(ctx context.Context, _ []byte) ([]byte, error) {
		seen <- ctx
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return g, seen
}

// TestHandlerContext: it has the caller's deadline, and ends with the caller's context, with the
// session and with the server.
func TestHandlerContext(t *testing.T) {
	g, seen := newWatcher(t, erpc.Config{})
	addr := g.serve(t, "127.0.0.1:0")
	c := dial(t, addr, erpc.Config{})
	call := func(c *erpc.Client, ctx context.Context) (context.Context, chan error) {
		ended := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, typeWatch, nil)
			ended <- err
		}()
		return eventually(t, seen, "the handler"), ended
	}
	ctx, cancel := context.WithCancel(bg)
	h, ended := call(c, ctx)
	if at, ok := h.Deadline(); ok || h.Err() != nil {
		t.Errorf("deadline %v, error %v", at, h.Err())
	}
	cancel()
	eventually(t, h.Done(), "the context's end")
	is(t, "cancelled", h.Err(), context.Canceled)
	is(t, "the call", eventually(t, ended, "the call"), erpc.ErrCancelled)

	want := time.Now().Add(time.Hour)
	ctx, cancel = context.WithDeadline(bg, want)
	h, ended = call(c, ctx)
	at, ok := h.Deadline()
	if !ok || at.Before(want.Add(-time.Second)) || at.After(want.Add(10*time.Minute)) {
		t.Errorf("deadline %v, %v; the caller's is %v", at, ok, want)
	}
	cancel()
	eventually(t, h.Done(), "the context's end")
	<-ended

	ctx, cancel = context.WithTimeout(bg, 30*time.Millisecond)
	h, ended = call(c, ctx)
	eventually(t, h.Done(), "the context's end")
	if err := h.Err(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("at the deadline: %v", err)
	}
	// The handler's own answer may come first: it is an *Error with the same code.
	if err := eventually(t, ended, "the call"); erpc.CodeOf(err) != erpc.CodeDeadlineExceeded {
		t.Errorf("the call: %v", err)
	}
	cancel()

	other := dial(t, addr, erpc.Config{})
	h, ended = call(other, bg)
	is(t, "close", other.Close(), nil)
	eventually(t, h.Done(), "the end of the session")
	<-ended

	h, ended = call(c, bg)
	is(t, "close", g.Close(), nil)
	eventually(t, h.Done(), "the end of the server")
	<-ended
}

// TestHandlerIdentity: a Func finds the peer, the type and the session's user data.
func TestHandlerIdentity(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{OnSession: func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionConnected {
			if s.UserData() != nil {
				t.Error("a new session has user data")
			}
			s.SetUserData("the client at " + s.Peer().String())
		}
	}})
	g.handle(t, typeWatch, func(ctx context.Context, _ []byte) ([]byte, error) {
		inner, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		h, ok := erpc.HandleFrom(inner)
		if !ok || h.Type() != typeWatch || h.Session() == nil || h.Peer() != h.Session().Peer() {
			t.Errorf("handle %+v, %v", h, ok)
		}
		who := h.Session().UserData()
		h.Session().SetUserData(5) // of another type
		if h.Session().UserData() != 5 {
			t.Error("the user data did not change")
		}
		h.Session().SetUserData(who)
		return []byte(who.(string)), nil
	})
	tr := listen(t, "127.0.0.1:0")
	local := tr.LocalAddr().String()
	c, err := erpc.Dial(bg, tr, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	is(t, "dial", err, nil)
	defer c.Close()
	got, err := c.Call(bg, typeWatch, nil)
	if err != nil || string(got) != "the client at "+local {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOrphanNeverRuns: a request whose session ends while it waits for a worker does not run.
func TestOrphanNeverRuns(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	res := p.enqueue(tBackground, 1, 0)
	p.until(func() bool { return len(p.tasks) == 1 })
	is(t, "close", p.client.CloseSession(p.sess), nil)
	p.until(func() bool { return p.server.Sessions() == 0 })
	p.runTasks()
	if len(p.held) != 0 || res.ends != 1 {
		t.Errorf("the handler ran %d times, the call ended %d times", len(p.held), res.ends)
	}
	p.until(func() bool { return p.server.Running() == 0 })
	p.close()
}
