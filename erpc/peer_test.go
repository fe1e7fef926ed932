package erpc_test

import (
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

const manySessions = 600

// newManyPair is a memPair with many sessions; pings counts pings both ways.
func newManyPair(t *testing.T) (p *memPair, sessions []*erpc.Session, pings *int) {
	p = newMemPair(t, erpc.Config{MaxSessions: 2 * manySessions}, func(n *erpc.Nexus) {
		if err := n.Register(1, erpc.Dispatch,
			func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
			t.Fatal(err)
		}
	})
	sessions = append(sessions, p.sess)
	for len(sessions) < manySessions {
		p.connect()
		sessions = append(sessions, p.sess)
	}
	pings = new(int)
	tap := func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == wire.OpPing {
			*pings++
		}
	}
	p.cend.tap, p.send.tap = tap, tap
	p.tick = 1e6
	return p, sessions, pings
}

// pass lets both sides idle for so many ms.
func (p *memPair) pass(ms int) {
	for range ms {
		p.step()
	}
}

// ended counts the sessions that ended with an error.
func ended(sessions []*erpc.Session, err error) (n int) {
	for _, s := range sessions {
		if errors.Is(s.Err(), err) {
			n++
		}
	}
	return n
}

// TestIdleSessionsAreCheap: however many sessions a peer has, a ping in three heartbeats
// shows that it lives; and each session asks for itself now and then.
func TestIdleSessionsAreCheap(t *testing.T) {
	p, sessions, pings := newManyPair(t)
	p.pass(40_000) // 80 heartbeats
	if *pings < 24 || *pings > 30 {
		t.Errorf("%d pings in 80 heartbeats", *pings)
	}
	p.pass(110_000)
	if *pings < manySessions || *pings > 4*manySessions {
		t.Errorf("%d pings in 300 heartbeats for %d sessions", *pings, manySessions)
	}
	if n := ended(sessions, erpc.ErrPeerLost); n != 0 || p.server.Sessions() != manySessions {
		t.Errorf("%d sessions lost, %d left at the server", n, p.server.Sessions())
	}
	p.close()
}

// TestLostPeerEndsAllSessions: a peer that is gone takes all its sessions with it, in time.
func TestLostPeerEndsAllSessions(t *testing.T) {
	p, sessions, _ := newManyPair(t)
	p.pass(1000)
	for range 6000 { // twice the default FailureTimeout, 3 s
		p.net.now += p.tick
		if _, err := p.client.RunOnce(); err != nil {
			t.Fatal(err)
		}
	}
	if n := ended(sessions, erpc.ErrPeerLost); n != manySessions || p.client.Sessions() != 0 {
		t.Errorf("%d of %d sessions lost, %d left", n, manySessions, p.client.Sessions())
	}
	p.pass(20_000)
	if n := p.server.Sessions(); n != 0 { // the client lives and knows none of them
		t.Errorf("%d sessions left at the server", n)
	}
	p.close()
}

// TestRestartedPeerEndsAllSessions: idle sessions too learn soon that their server is
// another process now.
func TestRestartedPeerEndsAllSessions(t *testing.T) {
	p, sessions, _ := newManyPair(t)
	n, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Clock: p.net.Now, Seed: 99}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	old := p.server
	if p.server, err = n.NewRpc(&rebornEnd{p.send}); err != nil {
		t.Fatal(err)
	}
	p.pass(2000)
	if n := ended(sessions, erpc.ErrPeerRestarted); n != manySessions {
		t.Errorf("%d of %d sessions ended", n, manySessions)
	}
	p.close()
	_ = old.Close()
}

// TestSuspectsAskInTurn: when the peer does not know one session the others ask, not all at once
// but 500 in a sweep.
func TestSuspectsAskInTurn(t *testing.T) {
	p, sessions, pings := newManyPair(t)
	p.pass(1000)
	p.server.Forget(sessions[0])
	req, err := p.client.Alloc(1)
	is(t, "alloc", err, nil)
	_, err = p.client.EnqueueRequest(sessions[0], erpc.Request{
		Type: 1, Req: req, Done: func(c erpc.Completion) { c.Req.Free() },
	})
	is(t, "enqueue", err, nil)
	p.until(func() bool { return sessions[0].Err() != nil })
	most, all := 0, 0
	for range 300 { // two sweeps
		*pings = 0
		p.step()
		most, all = max(most, *pings), all+*pings
	}
	if most < 500 || most > 503 || all < manySessions-1 || all > manySessions+10 {
		t.Errorf("%d pings in all, %d at once", all, most)
	}
	p.close()
}

// TestForgottenSession: the server lost one session among many. The client finds out,
// and nothing happens to the others.
func TestForgottenSession(t *testing.T) {
	p, sessions, _ := newManyPair(t)
	lost := sessions[manySessions/2]
	p.server.Forget(lost)
	p.pass(110 * 500)
	if !errors.Is(lost.Err(), erpc.ErrPeerRestarted) || ended(sessions, erpc.ErrPeerRestarted) != 1 {
		t.Errorf("the session's error is %v, %d ended", lost.Err(),
			ended(sessions, erpc.ErrPeerRestarted))
	}
	p.close()
}
