package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestHandleAfterAnswer: when a background request has its answer its handle says so, whatever it
// is asked, also while the memory behind it serves another request.
func TestHandleAfterAnswer(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	p.onTask = func(h erpc.ReqHandle) {
		if _, ok := h.Deadline(); !ok {
			t.Error("no deadline while the request waits")
		}
		buf, err := h.Alloc(10)
		is(t, "a buffer while the request waits", err, nil)
		buf.Free()
	}
	over := func(h erpc.ReqHandle) {
		t.Helper()
		if at, ok := h.Deadline(); ok || at != 0 {
			t.Errorf("a deadline, %v, after the answer", at)
		}
		if h.Data() != nil || h.Cancelled() {
			t.Errorf("data %v, cancelled %v after the answer", h.Data(), h.Cancelled())
		}
		buf, err := h.Alloc(10)
		if is(t, "a buffer", err, erpc.ErrResponded); err == nil {
			buf.Free()
		}
		is(t, "an answer", h.RespondBytes(nil), erpc.ErrResponded)
		is(t, "an error", h.RespondError(erpc.ErrRequest), erpc.ErrResponded)
	}
	first := p.enqueue(tBackground, 10, time.Second)
	p.until(func() bool { return len(p.tasks) == 1 })
	p.runTasks()
	over(p.held[0])
	done := make(chan struct{})
	go func() { // no lock orders this and the next request, which gets the job
		defer close(done)
		over(p.held[0])
	}()
	second := p.enqueue(tBackground, 10, 2*time.Second)
	p.until(func() bool { return len(p.tasks) == 1 })
	<-done
	over(p.held[0])
	p.runTasks()
	p.until(func() bool { return first.ends+second.ends == 2 })
	over(p.held[0])
	over(p.held[1])
	p.close()
}

// TestPeerOfMovedSession: a handler that is at work elsewhere asks for the client's address while
// the client moves. It gets the old one or the new one.
func TestPeerOfMovedSession(t *testing.T) {
	p := newErrPair(t, erpc.Config{PSK: testPSK})
	res := p.enqueue(tBackground, 10, 0)
	p.until(func() bool { return len(p.tasks) == 1 })
	old := p.cend.addr
	p.onTask = func(h erpc.ReqHandle) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if at := h.Peer(); at != old && at != h.Session().Peer() {
				t.Errorf("the client is at %v", at)
			}
		}()
		p.rebind()
		p.call(tEcho, 10)
		p.until(func() bool { return p.server.Counters().SessionsMoved > 0 })
		<-done
		if at := h.Peer(); at == old || at != p.cend.addr {
			t.Errorf("moved from %v to %v, the handle says %v", old, p.cend.addr, at)
		}
	}
	p.runTasks()
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, nil)
	p.close()
}
