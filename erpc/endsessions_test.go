package erpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// revoking is a server of two transports that lets in who is not revoked.
type revoking struct {
	t     *testing.T
	ctx   context.Context
	ca    *sectest.CA
	srv   *erpc.Server
	addrs []string
	held  chan struct{} // gets one for each call of type 2, which waits for its context

	mu      sync.Mutex
	gate    func(id string) // called by Authorize behind its decision, if it is not nil
	revoked map[string]bool
	asked   map[string]int // how often Authorize was asked
}

func newRevoking(t *testing.T) *revoking {
	r := &revoking{t: t, ca: sectest.NewCA("ours"), held: make(chan struct{}, 8),
		revoked: map[string]bool{}, asked: map[string]int{}}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	var err error
	r.srv, err = erpc.NewServer(erpc.Config{
		TLS: r.ca.Config("127.0.0.1", ""), Authorize: r.authorize,
	})
	is(t, "a server", err, nil)
	is(t, "register", r.srv.Handle(1, func(_ context.Context, req []byte) ([]byte, error) {
		return req, nil
	}), nil)
	is(t, "register", r.srv.Handle(2, func(ctx context.Context, _ []byte) ([]byte, error) {
		r.held <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}), nil)
	var done sync.WaitGroup
	for range 2 {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		is(t, "an endpoint", err, nil)
		r.addrs = append(r.addrs, tr.LocalAddr().String())
		done.Add(1)
		go func() { defer done.Done(); _ = r.srv.Serve(tr) }()
	}
	t.Cleanup(func() { _ = r.srv.Close(); done.Wait() })
	return r
}

// authorize says whether a client is welcome.
func (r *revoking) authorize(_ context.Context, s erpc.ConnectionState) error {
	id := nameOf(s)
	r.mu.Lock()
	revoked, gate := r.revoked[id], r.gate
	r.asked[id]++
	r.mu.Unlock()
	if gate != nil {
		gate(id)
	}
	if revoked {
		return errors.New("revoked")
	}
	return nil
}

// nameOf returns the last part of a peer's SPIFFE ID.
func nameOf(s erpc.ConnectionState) string {
	if id := s.SPIFFE(); id != nil {
		return id.Path[1:]
	}
	return ""
}

// revoke has a client be refused from now on.
func (r *revoking) revoke(id string) {
	r.mu.Lock()
	r.revoked[id] = true
	r.mu.Unlock()
}

// authorized returns how often Authorize was asked for a client.
func (r *revoking) authorized(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[id]
}

// loop returns a Loop of a client.
func (r *revoking) loop(id string) *erpc.Loop {
	r.t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	is(r.t, "an endpoint", err, nil)
	l, err := erpc.NewLoop(tr, erpc.Config{TLS: r.ca.Config("", "spiffe://test/"+id)})
	is(r.t, "a loop", err, nil)
	r.t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial returns a Client of one of the server's transports.
func (r *revoking) dial(l *erpc.Loop, i int) *erpc.Client {
	r.t.Helper()
	c, err := l.Dial(r.ctx, r.addrs[i])
	is(r.t, "dial", err, nil)
	return c
}

// end ends the sessions of a client.
func (r *revoking) end(id string) int {
	r.t.Helper()
	n, err := r.srv.EndSessions(r.ctx, func(s erpc.ConnectionState) bool { return nameOf(s) == id })
	is(r.t, "to end sessions", err, nil)
	return n
}

// calls makes calls until one fails for another reason than that its session has ended.
func (r *revoking) calls(c *erpc.Client) (err error) {
	for err == nil || errors.Is(err, erpc.ErrPeerClosed) {
		_, err = c.Call(r.ctx, 1, nil)
	}
	return err
}

// TestEndSessions: the sessions of a peer whose certificate was revoked end in all loops, its calls
// fail with a clear error, and it gets no other session: not by a new dial, and not by keys that it
// has without a session. Others notice nothing.
func TestEndSessions(t *testing.T) {
	r := newRevoking(t)
	bad, good := r.loop("bad"), r.loop("good")
	first, second := r.dial(bad, 0), r.dial(bad, 1)
	other := r.dial(good, 0)
	idle := r.loop("bad")
	is(t, "to leave keys without a session", r.dial(idle, 0).Close(), nil)
	call := make(chan error, 1)
	go func() {
		_, err := first.Call(r.ctx, 2, nil)
		call <- err
	}()
	<-r.held
	if r.end("nobody") != 0 {
		t.Error("sessions of nobody ended")
	}
	r.revoke("bad")
	if n := r.end("bad"); n != 2 {
		t.Errorf("%d sessions ended", n)
	}
	is(t, "the call under way", <-call, erpc.ErrPeerClosed)
	is(t, "another call", r.calls(first), erpc.ErrDenied)
	is(t, "another call", r.calls(second), erpc.ErrDenied)
	_, err := idle.Dial(r.ctx, r.addrs[0])
	is(t, "a dial by keys from before", err, erpc.ErrDenied)
	_, err = other.Call(r.ctx, 1, nil)
	is(t, "a call of another peer", err, nil)
	if n := r.authorized("good"); n != 1 {
		t.Errorf("the other peer was looked at %d times", n)
	}
	if n := r.end("bad"); n != 0 {
		t.Errorf("%d more sessions ended", n)
	}
}

// TestEndSessionsOfTheWelcome: a peer that is still welcome comes again, by a handshake.
func TestEndSessionsOfTheWelcome(t *testing.T) {
	r := newRevoking(t)
	l := r.loop("good")
	c := r.dial(l, 0)
	before := r.authorized("good")
	if n := r.end("good"); n != 1 {
		t.Errorf("%d sessions ended", n)
	}
	_, err := r.dial(l, 0).Call(r.ctx, 1, nil)
	is(t, "a call", err, nil)
	if n := r.authorized("good"); n <= before {
		t.Error("a session opened without a handshake")
	}
	is(t, "close", c.Close(), nil)
}

// TestEndSessionsWhileOpening: a handshake that was let in before is asked after, too.
func TestEndSessionsWhileOpening(t *testing.T) {
	r := newRevoking(t)
	c, bad := r.dial(r.loop("good"), 0), r.loop("bad")
	entered, admit := make(chan string, 16), make(chan struct{})
	r.mu.Lock()
	r.gate = func(id string) { entered <- id; <-admit }
	r.mu.Unlock()
	dialled := make(chan error, 1)
	go func() {
		c, err := bad.Dial(r.ctx, r.addrs[0])
		if err == nil {
			err = r.calls(c) // until its session has ended
		}
		dialled <- err
	}()
	if id := <-entered; id != "bad" {
		t.Errorf("%q comes", id)
	}
	r.revoke("bad")
	asked := map[string]int{}
	_, err := r.srv.EndSessions(r.ctx, func(s erpc.ConnectionState) bool {
		if asked[nameOf(s)]++; asked["good"]+asked["bad"] == 1 {
			close(admit) // the first look is over
		}
		return nameOf(s) == "bad"
	})
	is(t, "to end sessions", err, nil)
	if asked["bad"] != 1 || asked["good"] != 2 {
		t.Errorf("asked for %v", asked)
	}
	is(t, "the dial", <-dialled, erpc.ErrDenied)
	is(t, "close", c.Close(), nil)
}

// chosen ends sessions of an endpoint that the test steps.
func chosen(p *memPair, r *erpc.Rpc, choose func(erpc.ConnectionState) bool) (n int) {
	p.tb.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		n, err = r.EndSessions(p.tb.Context(), choose)
		done <- err
	}()
	p.until(func() bool {
		select {
		case err := <-done:
			is(p.tb, "to end sessions", err, nil)
			return true
		default:
			return false
		}
	})
	return n
}

// TestEndSessionsOfRpc: an endpoint ends sessions of both kinds. Peers in the clear are told apart
// by their addresses, and may come again. Those with keys make new ones, at once.
func TestEndSessionsOfRpc(t *testing.T) {
	for _, keys := range [][][]byte{nil, testPSK} {
		p := newMemPair(t, erpc.Config{PSK: keys}, nil)
		p.tick = 10_000
		back, err := p.server.CreateSessionTo(p.cend.addr)
		is(t, "dial", err, nil)
		p.until(back.Connected)
		nobody := func(s erpc.ConnectionState) bool { return !s.Peer.IsValid() }
		if n := chosen(p, p.server, nobody); n != 0 {
			t.Errorf("%d sessions of nobody", n)
		}
		n := chosen(p, p.server, func(s erpc.ConnectionState) bool {
			if s.PSK != (keys != nil) || s.UID != -1 || s.TLS != nil {
				t.Errorf("%+v", s)
			}
			return s.Peer == p.cend.addr
		})
		if n != 2 {
			t.Errorf("%d sessions ended", n)
		}
		is(t, "the server's own session", back.Err(), erpc.ErrClosed)
		p.until(func() bool { return p.sess.Err() != nil })
		is(t, "the client's session", p.sess.Err(), erpc.ErrPeerClosed)
		start, made := p.net.now, p.client.Indices()
		p.connect()
		if took := p.net.now.Sub(start); took > 100*time.Millisecond {
			t.Errorf("another session took %v", took)
		}
		if keys != nil && p.client.Indices() <= made {
			t.Error("it opened on the keys of before")
		}
		made = p.server.Indices()
		back, err = p.server.CreateSessionTo(p.cend.addr)
		is(t, "dial", err, nil)
		if p.until(back.Connected); keys != nil && p.server.Indices() <= made {
			t.Error("the way back opened on the keys of before")
		}
		p.close()
	}
}

// TestEndSessionsGivesUp: EndSessions waits for a loop no longer than its context.
func TestEndSessionsGivesUp(t *testing.T) {
	p := newMemPair(t, erpc.Config{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := p.server.EndSessions(ctx, func(erpc.ConnectionState) bool { return true })
	is(t, "to end sessions", err, erpc.ErrCancelled)
	p.pass(10)
	if n != 0 || !p.sess.Connected() {
		t.Errorf("%d sessions ended", n)
	}
	p.close()
	n, err = p.server.EndSessions(t.Context(), func(erpc.ConnectionState) bool { return true })
	if is(t, "of a closed endpoint", err, nil); n != 0 {
		t.Errorf("%d sessions of a closed endpoint", n)
	}
}
