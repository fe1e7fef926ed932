package erpc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestDeadlineReachesHandler: a handler of either kind learns when the client gives up, no earlier
// and at most a sixteenth later than that; without a timeout there is no deadline.
func TestDeadlineReachesHandler(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	const left = 160 * time.Millisecond
	for _, typ := range []uint8{tHold, tBackground} {
		for _, timeout := range []time.Duration{left, 0} {
			p.held = nil
			start := p.net.now
			res := p.enqueue(typ, 10, timeout)
			p.until(func() bool { return len(p.held)+len(p.tasks) == 1 })
			var at erpc.Time
			var ok bool
			p.hold = nil
			if typ == tBackground {
				p.onTask = func(h erpc.ReqHandle) { at, ok = h.Deadline() }
				p.runTasks()
				p.onTask = nil
			} else {
				at, ok = p.held[0].Deadline()
				is(t, "respond", p.held[0].RespondBytes(nil), nil)
				if _, late := p.held[0].Deadline(); late {
					t.Error("a deadline after the response")
				}
			}
			if ok != (timeout > 0) ||
				ok && (at < start.Add(left) || at > start.Add(left+left/16+time.Millisecond)) {
				t.Errorf("type %d, timeout %v: deadline %v after, %v", typ, timeout, at.Sub(start), ok)
			}
			p.until(func() bool { return res.ends > 0 })
			is(t, "the call", res.err, nil)
		}
	}
	p.close()
}

// TestLateWorkIsDropped: a background request whose client has given up, or whose time has passed,
// does not run when its turn comes.
func TestLateWorkIsDropped(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	cancelled, late := p.enqueue(tBackground, 10, 0), p.enqueue(tBackground, 10, 50*time.Millisecond)
	p.until(func() bool { return len(p.tasks) == 2 })
	is(t, "cancel", p.client.Cancel(cancelled.id), nil)
	p.pass(10)
	p.send.lose = func(pkt []byte) bool { // the server does not hear that the time has passed
		return wire.Type(pkt[0]&15) == wire.TypeCancel
	}
	p.net.now = p.net.now.Add(100 * time.Millisecond)
	p.pass(2000)
	p.runTasks()
	p.pass(10)
	if len(p.held) != 0 {
		t.Errorf("%d handlers ran", len(p.held))
	}
	is(t, "the cancelled", cancelled.err, erpc.ErrCancelled)
	is(t, "the late", late.err, erpc.ErrDeadline)
	if st := p.server.Stats().Protocol; st.Cancels == 0 || p.server.Running() != 0 {
		t.Errorf("%d handlers at work, %+v", p.server.Running(), st)
	}
	p.send.lose = nil
	is(t, "another call", p.call(tEcho, 10).err, nil)
	p.close()
}

// TestServerSaysTooLate: a request whose time passed in the queue is answered with that, and that
// its handler did not run, if the client still waits: its clock may be slow.
func TestServerSaysTooLate(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	res := p.enqueue(tBackground, 10, 50*time.Millisecond)
	p.until(func() bool { return len(p.tasks) == 1 })
	p.cend.deaf = true
	p.net.now = p.net.now.Add(80 * time.Millisecond)
	p.runTasks()
	p.run(p.server)
	p.net.now = p.net.now.Add(-79 * time.Millisecond) // of the client
	p.cend.deaf = false
	p.run(p.client)
	var remote *erpc.Error
	is(t, "the call", res.err, erpc.ErrDeadline, erpc.ErrRemote)
	if !errors.As(res.err, &remote) || !remote.NotRun || remote.Code != erpc.CodeDeadlineExceeded {
		t.Errorf("%+v", remote)
	}
	p.net.now = p.net.now.Add(100 * time.Millisecond)
	p.close()
}

// TestCancelReachesHandler: a running handler of either kind can see that its client has gone.
// Its response is dropped, and then its slot is used again.
func TestCancelReachesHandler(t *testing.T) {
	for _, how := range []string{"cancel", "cancel is lost"} {
		p := newErrPair(t, erpc.Config{Slots: 1})
		inline := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) == 1 })
		if p.held[0].Cancelled() {
			t.Error("cancelled from the start")
		}
		if how != "cancel" {
			p.send.lose = func(pkt []byte) bool { return wire.Type(pkt[0]&15) == wire.TypeCancel }
		}
		is(t, "cancel", p.client.Cancel(inline.id), nil)
		if how != "cancel" {
			p.sess.UseAgain(1)
		}
		next := p.enqueue(tEcho, 10, 0) // a newer number says the same
		p.pass(10)
		if h := p.held[0]; !h.Cancelled() || p.server.Running() != 1 || h.Data() == nil {
			t.Errorf("%s: cancelled %v, %d run", how, h.Cancelled(), p.server.Running())
		}
		is(t, "respond", p.held[0].RespondBytes([]byte("nobody")), nil)
		is(t, "respond again", p.held[0].RespondBytes(nil), erpc.ErrResponded)
		p.until(func() bool { return next.ends > 0 })
		is(t, "the next call", next.err, nil)
		if string(next.resp) == "nobody" || p.held[0].Cancelled() || inline.ends != 1 {
			t.Errorf("the next call got %q", next.resp)
		}
		p.close()
	}
}

// TestCancelledBackground: a background handler at work sees it too.
func TestCancelledBackground(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	res := p.enqueue(tBackground, 10, 0)
	p.until(func() bool { return len(p.tasks) == 1 })
	saw := [2]bool{}
	p.onTask = func(h erpc.ReqHandle) {
		saw[0] = h.Cancelled()
		is(t, "cancel", p.client.Cancel(res.id), nil)
		p.pass(10)
		saw[1] = h.Cancelled()
	}
	p.runTasks()
	if saw != [2]bool{false, true} {
		t.Errorf("cancelled: %v", saw)
	}
	p.onTask = nil
	p.pass(10)
	if p.server.Running() != 0 {
		t.Errorf("%d run", p.server.Running())
	}
	is(t, "another call", p.call(tEcho, 10).err, nil)
	p.close()
}

// TestStatus: an application's error arrives with its status and details, and says that it ran;
// one of the library says that it did not.
func TestStatus(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	var remote *erpc.Error
	for _, c := range []struct{ give, want erpc.Code }{
		{erpc.CodeNotFound, erpc.CodeNotFound}, {erpc.CodeUnauthenticated, erpc.CodeUnauthenticated},
		{erpc.CodeOK, erpc.CodeUnknown}, {erpc.CodeUnauthenticated + 1, erpc.CodeUnknown},
	} {
		details := []byte{1, 2, 3}
		p.hold = func(h erpc.ReqHandle) {
			is(t, "respond", h.RespondError(&erpc.Error{Code: c.give, Text: "text", Details: details}), nil)
		}
		err := p.call(tHold, 10).err
		if !errors.As(err, &remote) || remote.Code != c.want || remote.Reason != erpc.ReasonApplication ||
			remote.Text != "text" || string(remote.Details) != "\x01\x02\x03" || remote.NotRun {
			t.Errorf("status %v came as %+v", c.give, remote)
		}
	}
	err := p.call(99, 10).err
	if !errors.As(err, &remote) || !remote.NotRun || remote.Code != erpc.CodeUnimplemented {
		t.Errorf("no handler: %+v", remote)
	}
	p.close()
}
