package erpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// The name service of these tests returns errNames when it is out of order.
var errNames = errors.New("no name service")

// connectTimeout is the default. A lookup gets half of it.
const connectTimeout = 3 * time.Second

// lookups is a dialedClient whose session has ended and whose name service is the test. Another
// server is on the same network.
type lookups struct {
	*dialedClient
	asked  chan struct{} // one value for each lookup
	answer chan found    // what it returns
	second *erpc.Rpc
	tries  int // packets that open a session that came to the second server
	pings  int // heartbeats that did
}

// found holds the results of a lookup.
type found struct {
	addr transport.Addr
	err  error
}

func newLookups(t *testing.T) *lookups { return newLookupsOf(t, erpc.Config{}) }

func newLookupsOf(t *testing.T, cfg erpc.Config) *lookups {
	p := &lookups{
		dialedClient: newDialedClientOf(t, cfg), asked: make(chan struct{}, 10), answer: make(chan found),
	}
	gone := make(chan struct{})
	t.Cleanup(func() { close(gone) }) // of a test that gave up
	p.end.resolve = func() (transport.Addr, error) {
		p.asked <- struct{}{}
		select {
		case f := <-p.answer:
			return f.addr, f.err
		case <-gone:
			return transport.Addr{}, transport.ErrClosed
		}
	}
	end := p.net.end(true)
	end.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt {
			return
		}
		switch wire.Op(h.ReqType) {
		case wire.OpConnect:
			p.tries++
		case wire.OpPing:
			p.pings++
		}
	}
	var err error
	p.second, err = p.nexus.NewRpc(end)
	is(t, "second server", err, nil)
	t.Cleanup(func() { is(t, "close", p.second.Close(), nil) })
	p.endSession(t)
	return p
}

// step lets each make a pass.
func (p *lookups) step() {
	p.round()
	p.run(p.second)
}

func (p *lookups) stepUntil(what string, cond func() bool) {
	p.tb.Helper()
	for range 1_000_000 {
		if cond() {
			return
		}
		p.step()
	}
	p.tb.Fatal(what, ": it never happened")
}

// call begins a call, which finds no session and waits for the name service.
func (p *lookups) call(t *testing.T) chan error {
	t.Helper()
	return p.begin(t, p.net.now+1000)
}

// lookup is call, until the name service has been asked.
func (p *lookups) lookup(t *testing.T) chan error {
	t.Helper()
	result := p.call(t)
	eventually(t, p.asked, "a lookup")
	return result
}

// says answers the lookup that is under way, and lets the loop know.
func (p *lookups) says(addr transport.Addr, err error) {
	p.awaitWake(func() { p.answer <- found{addr, err} })
	p.step()
}

// at makes it as late as that, and lets each make a pass.
func (p *lookups) at(now erpc.Time) {
	p.net.now = now
	p.step()
}

// tooLong lets the time pass that a lookup gets.
func (p *lookups) tooLong() { p.at(p.net.now.Add(connectTimeout/2 + 2*epoch)) }

// waits fails the test if a call has ended.
func waits(t *testing.T, what string, result chan error) {
	t.Helper()
	if len(result) > 0 {
		t.Fatalf("%s: the call has ended with %v", what, <-result)
	}
}

// ends steps until a call has ended, and compares its error.
func (p *lookups) ends(t *testing.T, what string, result chan error, wants ...error) {
	t.Helper()
	p.stepUntil(what, func() bool { return len(result) > 0 })
	is(t, what, <-result, wants...)
}

// noLookup fails the test if the name service has been asked once more.
func (p *lookups) noLookup(t *testing.T) {
	t.Helper()
	if len(p.asked) > 0 {
		t.Errorf("%d more lookups", len(p.asked))
	}
}

// endSession makes the server end the Client's session.
func (p *lookups) endSession(t *testing.T) {
	is(t, "end the session", p.server.CloseSession(p.served), nil)
	p.step()
	p.step()
}

// TestLookupBesideTheLoop: while the name service hangs, heartbeats and calls to another peer of
// the same Rpc go on.
func TestLookupBesideTheLoop(t *testing.T) {
	p := newLookupsOf(t, erpc.Config{Timing: erpc.Timing{Heartbeat: 200 * time.Millisecond}})
	p.awaitWake(func() {
		is(t, "post", p.client.Post(func(r *erpc.Rpc) {
			var err error
			p.sess, err = r.CreateSessionTo(p.second.LocalAddr())
			is(t, "second session", err, nil)
		}), nil)
	})
	p.stepUntil("connect", func() bool { return p.sess != nil && p.sess.Connected() })
	result := p.lookup(t)
	for range 10 {
		ended := false
		is(t, "post", p.client.Post(func(r *erpc.Rpc) { enqueueEcho(t, r, p.sess, &ended) }), nil)
		p.stepUntil("a call to another peer", func() bool { return ended })
	}
	p.tick = 10e6
	pings := p.pings
	p.stepUntil("heartbeats", func() bool { return p.pings >= pings+2 })
	if !p.sess.Connected() {
		t.Error("the other session is lost:", p.sess.Err())
	}
	waits(t, "the name service hangs", result)
	p.noLookup(t)
	p.tick = 100_000
	p.says(p.send.addr, nil)
	p.ends(t, "the call", result, nil)
}

// enqueueEcho starts a call that must succeed. It runs in the loop.
func enqueueEcho(t *testing.T, r *erpc.Rpc, s *erpc.Session, ended *bool) {
	req, err := r.Alloc(4)
	if err == nil {
		_, err = r.EnqueueRequest(s, erpc.Request{Type: tEcho, Req: req, Done: func(c erpc.Completion) {
			is(t, "a call to another peer", c.Err, nil)
			*ended = true
			c.Req.Free()
			if c.Resp != nil {
				c.Resp.Free()
			}
		}})
	}
	is(t, "enqueue", err, nil)
}

// TestLookupMoved: the name leads to another address. Nothing goes to the old one.
func TestLookupMoved(t *testing.T) {
	p := newLookups(t)
	connects := p.connects
	one, two := p.lookup(t), p.call(t)
	for range 100 {
		p.step()
	}
	waits(t, "the first call", one)
	waits(t, "the second call", two)
	p.noLookup(t)
	p.says(p.second.LocalAddr(), nil)
	p.ends(t, "the first call", one, nil)
	p.ends(t, "the second call", two, nil)
	if p.connects != connects {
		t.Error("the Client knocked at the old address")
	}
	tries := p.tries
	p.tooLong()
	p.step()
	if p.tries != tries {
		t.Error("the Client opens another session")
	}
	p.ends(t, "a call", p.call(t), nil)
}

// TestLookupFails: the old address is tried. When the server is not there the error says both.
func TestLookupFails(t *testing.T) {
	p := newLookups(t)
	result := p.lookup(t)
	p.says(transport.Addr{}, errNames)
	p.ends(t, "the server has not moved", result, nil)

	p.endSession(t)
	is(t, "refuse", p.server.Refuse(), nil)
	p.tick = 1 // all of this happens within redialAfter
	result = p.lookup(t)
	p.says(transport.Addr{}, errNames)
	p.ends(t, "the server refuses", result, erpc.ErrRefused, erpc.ErrResolve, errNames)
	p.ends(t, "the same again", p.call(t), erpc.ErrRefused, erpc.ErrResolve, errNames)
	p.noLookup(t)

	p.at(p.net.now.Add(time.Second)) // calls fail at once for a while
	result = p.lookup(t)
	p.says(p.send.addr, nil)
	p.stepUntil("a refusal", func() bool { return len(result) > 0 })
	if err := <-result; !errors.Is(err, erpc.ErrRefused) || errors.Is(err, erpc.ErrResolve) {
		t.Errorf("the name service is well again: %v", err)
	}
}

// TestLookupHangs: after half of ConnectTimeout the old address is tried, and after the other half
// the call ends. There is one lookup, however many calls.
func TestLookupHangs(t *testing.T) {
	p := newLookups(t)
	p.send.deaf = true
	for i := range 3 {
		began, connects := p.net.now, p.connects
		result := p.call(t)
		if i == 0 {
			eventually(t, p.asked, "a lookup")
		}
		p.at(began.Add(connectTimeout/2 - 2*epoch))
		if p.connects != connects {
			t.Error("the old address is tried already")
		}
		p.at(began.Add(connectTimeout/2 + 2*epoch))
		if p.connects == connects {
			t.Error("the old address is not tried")
		}
		p.at(began.Add(connectTimeout - 2*epoch))
		waits(t, "time is not up", result)
		p.at(began.Add(connectTimeout + 2*epoch))
		is(t, "time is up", eventually(t, result, "the call"), erpc.ErrConnect, erpc.ErrResolve)
		p.at(p.net.now.Add(time.Second)) // calls fail at once for a while
	}
	p.send.deaf = false
	result := p.call(t)
	p.tooLong()
	p.ends(t, "the server is at the old address", result, nil)
	p.noLookup(t)
	p.says(transport.Addr{}, errNames) // nobody waits any more
	p.ends(t, "a call", p.call(t), nil)
}

// TestLookupLate: the answer comes while the old address is tried in vain.
func TestLookupLate(t *testing.T) {
	p := newLookups(t)
	p.send.deaf = true
	connects := p.connects
	result := p.lookup(t)
	p.tooLong()
	if p.connects == connects || p.tries > 0 {
		t.Errorf("%d attempts at the old address, %d at the new one", p.connects-connects, p.tries)
	}
	p.says(p.second.LocalAddr(), nil)
	p.ends(t, "the call", result, nil)
	p.send.deaf = false // the old server would answer now
	for range 100 {
		p.step()
	}
	if n := p.client.Sessions(); n != 1 {
		t.Errorf("the Client has %d sessions", n)
	}
}

// TestLookupLateAndSame: an answer that confirms the address leaves the session alone that is
// being opened there.
func TestLookupLateAndSame(t *testing.T) {
	p := newLookups(t)
	p.send.deaf = true
	result := p.lookup(t)
	p.tooLong()
	connects := p.connects
	p.says(p.send.addr, nil)
	if p.connects != connects {
		t.Error("another session was begun")
	}
	p.send.deaf = false
	p.ends(t, "the call", result, nil)
}

// TestLookupCancel: a call that waits for the name service ends with its context, alone.
func TestLookupCancel(t *testing.T) {
	p := newLookups(t)
	ctx, cancel := context.WithCancel(t.Context())
	other := p.lookup(t)
	result := p.beginWith(ctx, p.net.now+1000)
	p.awaitWake(cancel)
	p.step()
	is(t, "cancelled", eventually(t, result, "the call"), erpc.ErrCancelled, context.Canceled)
	waits(t, "the other call", other)
	served := p.server.Stats().RequestsServed
	p.says(p.send.addr, nil)
	p.ends(t, "the other call", other, nil)
	for range 100 {
		p.step()
	}
	if n := p.server.Stats().RequestsServed - served; n != 1 {
		t.Errorf("%d requests were served, want 1", n)
	}
}

// TestLookupQueue: no more calls wait for a session than may wait in one.
func TestLookupQueue(t *testing.T) {
	p := newLookupsOf(t, erpc.Config{MaxQueue: 2})
	first := p.lookup(t)
	second, third := p.call(t), p.call(t)
	is(t, "one too many", eventually(t, third, "the third call"), erpc.ErrExhausted)
	waits(t, "first", first)
	waits(t, "second", second)
	p.says(p.send.addr, nil)
	p.ends(t, "first", first, nil)
	p.ends(t, "second", second, nil)
}

// TestLookupClose: Close does not wait for the name service. Calls that do end with ErrClosed.
func TestLookupClose(t *testing.T) {
	checkLeaks(t)
	p := newLookups(t)
	result := p.lookup(t)
	p.free()
	closed := make(chan error, 1)
	go func() { closed <- p.c.Close() }()
	is(t, "close", eventually(t, closed, "Close"), nil)
	is(t, "the call", eventually(t, result, "the call"), erpc.ErrClosed)
	_, err := p.c.Call(t.Context(), tEcho, nil)
	is(t, "a call after Close", err, erpc.ErrClosed)
	p.answer <- found{p.send.addr, nil} // the lookup was at work all the time
}
