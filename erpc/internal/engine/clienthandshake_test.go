package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

var testPSK = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}

// farewells are two endpoints and an open session between them.
type farewells struct {
	client, server *stub
	s              *Conn   // the client's
	ended          []error // sessions of the server
}

// newFarewells opens a session between stubs: the server is peer 1 of the client, and the client
// peer 2 of the server.
func newFarewells(t *testing.T, cfg setup, handlers ...func(request)) *farewells {
	t.Helper()
	p := &farewells{client: newStub(t, cfg)}
	cfg.Seed, cfg.OnSession = 10, p.note
	p.server = newStub(t, cfg, handlers...)
	p.s = p.client.dialTo(1)
	for range 10 {
		p.client.pass(time.Microsecond)
		p.ferry(t)
		p.server.pass(time.Microsecond)
		p.ferry(t)
	}
	return p
}

// note follows the server's sessions.
func (p *farewells) note(s *Conn, ev session.EventKind) {
	if ev != session.EventOpened {
		p.ended = append(p.ended, s.Err())
	}
}

// ferry carries what both sides have sent, and returns how many packets the server had.
func (p *farewells) ferry(t *testing.T) (fromClient int) {
	t.Helper()
	carry := func(from, to *stub, as int) int {
		n := len(from.end.sent)
		for _, pkt := range from.end.sent {
			to.end.in = append(to.end.in, transport.RxPacket{Data: pkt.data, From: stubAddr(as)})
		}
		from.end.sent = nil
		return n
	}
	carry(p.server, p.client, 1)
	return carry(p.client, p.server, 2)
}

// TestFarewell: an endpoint that ends says so once per session and hears no answer, so it gets
// none, from the session or from an endpoint that does not know it.
func TestFarewell(t *testing.T) {
	for _, cfg := range []setup{{}, {PSK: testPSK}} {
		p := newFarewells(t, cfg)
		if !p.s.Open() {
			t.Fatal("no session")
		}
		p.client.close()
		again := append([]stubPacket(nil), p.client.end.sent...)
		if n := p.ferry(t); n != 1 {
			t.Errorf("%d packets at the end", n)
		}
		p.server.pass(time.Microsecond)
		if len(p.ended) != 1 || !errors.Is(p.ended[0], ErrPeerClosed) {
			t.Errorf("the server's session ended with %v", p.ended)
		}
		if n := len(p.server.end.sent); n != 0 {
			t.Errorf("the session sent %d answers to an endpoint that has ended", n)
		}
		p.client.end.sent = again
		p.ferry(t)
		p.server.pass(time.Microsecond) // the session is not known any more
		if n := len(p.server.end.sent); n != 0 {
			t.Errorf("%d answers to an endpoint that has ended", n)
		}
	}
}

// TestFarewellOfNobody: a Disconnect that names no session is a farewell also for an endpoint that
// does not know the session, and one that names a session is answered.
func TestFarewellOfNobody(t *testing.T) {
	for _, c := range []struct {
		session uint32
		answers int
	}{{wire.NoSession, 0}, {7, 1}} {
		st := newStub(t, setup{})
		st.pass(time.Second)
		a := wire.Alive{Session: c.session, Token: 3, Seq: 1, To: 5}
		st.receive(1, wire.OpDisconnect, 77, 5, wire.AliveSize, a.Put)
		st.pass(1000)
		if ops := st.take(); len(ops) != c.answers {
			t.Errorf("session %d: answered with %v", c.session, ops)
		}
	}
}

// TestFarewellLost: if the farewell is lost the server's session ends by the client's silence.
func TestFarewellLost(t *testing.T) {
	p := newFarewells(t, setup{})
	p.client.close()
	for range 4000 {
		p.server.pass(5 * time.Millisecond)
		p.server.end.sent = nil
	}
	if len(p.ended) != 1 || !errors.Is(p.ended[0], ErrPeerLost) {
		t.Errorf("the server's session ended with %v", p.ended)
	}
}

// TestEndFlushesAnswersOnly: the end of a server session waits for queues only if these may refer
// to answers of the session.
func TestEndFlushesAnswersOnly(t *testing.T) {
	for calls := range 2 {
		p := newFarewells(t, setup{}, func(q request) { q.answer(q.data) })
		for range calls {
			p.client.start(p.s, 0, 8)
			p.client.pass(time.Microsecond)
			p.ferry(t)
			p.server.pass(time.Microsecond)
			p.ferry(t)
			p.client.pass(time.Microsecond)
		}
		if len(p.client.done) != calls || calls > 0 && p.client.done[0] != nil {
			t.Fatalf("%d calls ended with %v", calls, p.client.done)
		}
		before := p.server.flushes
		p.client.closeConn(p.s)
		p.client.pass(time.Microsecond)
		p.ferry(t)
		p.server.pass(time.Microsecond)
		if n := p.server.flushes - before; n != calls || len(p.ended) != 1 {
			t.Errorf("%d calls: %d flushes, %d sessions ended", calls, n, len(p.ended))
		}
	}
}

// pendingRig is a server that has no workers of its own, so that steps of handshakes wait until the
// test runs them, and clients that it has challenged.
type pendingRig struct {
	server  *stub
	clients []*stub
	said    func(pkt []byte) // sees what clients send, if not nil
	mtu     int              // of the paths, if not 0
	ran     int              // requests that a server of newSealedPair has answered
}

func newPendingRig(t *testing.T, n int) *pendingRig {
	t.Helper()
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	p.server.security.inline = false
	p.server.security.keys.steps.max = 0
	for range n {
		p.dial(t, setup{PSK: testPSK})
	}
	return p
}

// dial adds a client, which begins to open a session.
func (p *pendingRig) dial(t *testing.T, cfg setup) *Conn {
	t.Helper()
	cfg.Seed = uint64(20 + len(p.clients))
	st := newStub(t, cfg)
	if p.mtu > 0 {
		st.end.way.MTU = p.mtu
	}
	s := st.dialTo(1)
	p.clients = append(p.clients, st)
	return s
}

// turn lets d pass, and client i and then the server have a pass. It returns what the server says.
func (p *pendingRig) turn(i int, d time.Duration) []wire.Op {
	c := p.clients[i]
	c.pass(d)
	for _, pkt := range c.end.sent {
		if p.said != nil {
			p.said(pkt.data)
		}
		rx := transport.RxPacket{Data: pkt.data, From: stubAddr(2 + i)}
		p.server.end.in = append(p.server.end.in, rx)
	}
	c.end.sent = nil
	p.server.pass(d)
	for _, pkt := range p.server.end.sent {
		to := p.clients[pkt.to.Port-stubAddr(2).Port].end
		to.in = append(to.in, transport.RxPacket{Data: pkt.data, From: stubAddr(1)})
	}
	return p.server.take()
}

// opens reports whether client i has its session after some turns, with the steps of the server in
// between.
func (p *pendingRig) opens(i int) bool {
	q := &p.server.security.keys.steps
	for range 6 {
		for q.waiting > 0 {
			q.next()()
		}
		p.turn(i, time.Microsecond)
	}
	return p.clients[i].stats.SessionsOpened == 1
}

// TestPendingIsToldLate: a Connect with a cookie draws the server's part of the handshake alone.
// If that is not there when the client repeats its Connect, or if many others wait for it, the
// client learns first that its Connect has come.
func TestPendingIsToldLate(t *testing.T) {
	p := newPendingRig(t, soonDone+1)
	want := func(i, turn int, got, want []wire.Op) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("turn %d of client %d: %v, want %v", turn, i, got, want)
		}
	}
	challenge, crypto := []wire.Op{wire.OpChallenge}, []wire.Op{wire.OpCrypto}
	for i := range p.clients {
		want(i, 1, p.turn(i, time.Microsecond), challenge)
		said := []wire.Op(nil)
		if i+1 >= soonDone {
			said = crypto // that many steps wait
		}
		want(i, 2, p.turn(i, time.Microsecond), said)
	}
	retry := p.server.cfg.Timing.ConnectRetry
	want(0, 3, p.turn(0, retry/2), nil)
	want(0, 4, p.turn(0, retry), crypto) // it has repeated its Connect
	if mtu := p.clients[0].handshakes.repeating[0].dialer.Connect.Offer.MTU; mtu < 1400 {
		t.Errorf("the client has come down to packets of %d B", mtu)
	}
	for i := range p.clients {
		if !p.opens(i) {
			t.Errorf("client %d has no session", i)
		}
	}
}

// TestPendingAnswerLost: if the server's part of a handshake is lost a repeated Connect draws it.
func TestPendingAnswerLost(t *testing.T) {
	p := newPendingRig(t, 1)
	p.turn(0, time.Microsecond)
	p.turn(0, time.Microsecond)
	q := &p.server.security.keys.steps
	q.next()()
	if ops := p.turn(0, time.Microsecond); len(ops) == 0 {
		t.Fatal("no answer")
	}
	p.clients[0].end.in = nil // it is lost
	if ops := p.turn(0, 2*p.server.cfg.Timing.ConnectRetry); len(ops) == 0 {
		t.Fatal("no answer to the repeated Connect")
	}
	if !p.opens(0) {
		t.Error("no session")
	}
}

// TestKeysForgotten: a client closes its last session with a server and dials it again, and the
// server has forgotten the keys meanwhile. It says so, the two make new ones, and the session opens
// as soon as these are there, however long a worker takes.
func TestKeysForgotten(t *testing.T) {
	for _, worker := range []time.Duration{0, 20 * time.Millisecond, 1500 * time.Millisecond} {
		p := newFarewells(t, setup{PSK: testPSK})
		e := &p.client.Engine
		e.security.inline, e.security.keys.steps.max = false, 0
		p.client.closeConn(p.s)
		turn := func() {
			t.Helper()
			p.client.pass(time.Millisecond)
			p.ferry(t)
			p.server.pass(time.Millisecond)
			p.ferry(t)
		}
		turn()
		idle := p.server.assocs.idle
		if len(idle) == 0 || len(p.server.assocs.watched) > 0 {
			t.Fatal("the server's association has a session")
		}
		p.server.assocs.drop(idle[len(idle)-1])
		s := p.client.dialTo(1)
		q, dialled := &e.security.keys.steps, p.client.now
		for q.waiting == 0 && p.client.now < dialled.Add(time.Second) {
			turn()
		}
		if q.waiting != 1 || s.Open() {
			t.Fatalf("%d steps wait: the keys are not forgotten", q.waiting)
		}
		if took := p.client.now.Sub(dialled); took > 8*time.Millisecond { // nothing is repeated
			t.Errorf("the client learned it after %v", took)
		}
		for due := p.client.now.Add(worker); p.client.now < due; {
			turn()
		}
		for range 8 { // further steps follow the first one
			for q.waiting > 0 {
				q.next()()
			}
			turn()
		}
		if !s.Open() {
			t.Errorf("a worker took %v: no session", worker)
		}
	}
}

// TestFollowerLeads: a session that waited for the keys of another is challenged by another
// endpoint, and makes keys with that. The end of the first one is nothing to it any more.
func TestFollowerLeads(t *testing.T) {
	client := newStub(t, setup{PSK: testPSK})
	first, other := client.dialTo(1), client.dialTo(1)
	client.pass(time.Microsecond)
	e := &client.Engine
	challenge := func(s *Conn, epoch byte) {
		who := [whoSize]byte{0: epoch, 9: wire.SealedVersion}
		e.onChallenge(s, &wire.Challenge{Nonce: s.dialer.Connect.Nonce}, who[:])
	}
	challenge(first, 7)
	challenge(other, 7)
	if !first.handshake.begun() || other.handshake.begun() {
		t.Fatal("the second session does not wait for the first one")
	}
	challenge(other, 8)
	begun := other.handshake.stream
	if !begun.begun() {
		t.Fatal("no handshake with the other endpoint")
	}
	e.end(first, ErrConnect, Refused)
	client.pass(time.Microsecond)
	if other.handshake.stream != begun || begun.over {
		t.Error("the handshake began again")
	}
}
