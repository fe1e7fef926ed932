package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// named is an endpoint with a session whose address is not known yet, and a request in it.
type named struct {
	*stub
	s      *Conn
	events []session.EventKind
}

const nameLimit = 500 * time.Millisecond

func newNamed(t *testing.T) *named {
	t.Helper()
	n := new(named)
	n.stub = newStub(t, setup{OnSession: func(_ *Conn, ev session.EventKind) {
		n.events = append(n.events, ev)
	}})
	var err error
	if n.s, err = n.DialName("a.host", nameLimit); err != nil {
		t.Fatal(err)
	}
	n.start(n.s, 1, 32)
	return n
}

// TestNamedSession: a session without an address sends nothing. When that is known it connects,
// with what the path there asks for, and its requests leave.
func TestNamedSession(t *testing.T) {
	n := newNamed(t)
	for range 100 {
		n.pass(time.Millisecond)
	}
	if len(n.end.sent) != 0 || n.s.Open() || n.s.Err() != nil || len(n.done) != 0 {
		t.Fatalf("no address: %d packets, %v, %v", len(n.end.sent), n.s.Err(), n.done)
	}
	n.end.way.MTU, n.end.way.HostDelay = 1400, time.Millisecond
	n.Named(n.s, stubAddr(1), nil)
	n.pass(1000)
	if ops := n.take(); len(ops) != 1 || ops[0] != wire.OpConnect || n.s.Peer() != stubAddr(1) {
		t.Fatalf("with an address: %v, to %v", ops, n.s.Peer())
	}
	c := n.s.dialer.Connect
	if c.Offer.MTU != 1400 || n.s.plan != n.paths.plan(&n.end.way) {
		t.Errorf("an MTU of %d is offered", c.Offer.MTU)
	}
	a := wire.Accept{Nonce: c.Nonce, Epoch: 7, Session: 5, Token: 6, Offer: c.Offer}
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: [wire.CookieSize]byte{1}}
	n.receive(1, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, ch.Put)
	n.receive(1, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, a.Put)
	n.pass(1000)
	requests := 0
	for _, p := range n.end.sent {
		if p.data[0]&15 == byte(wire.TypeReq) && p.to == stubAddr(1) {
			requests++
		}
	}
	if !n.s.Open() || requests != 1 {
		t.Errorf("connected: %v, %d requests left", n.s.Open(), requests)
	}
}

// TestNameFails: a name that leads nowhere ends the session and its requests, whether its owner
// says so or says nothing within the limit. A later address changes nothing.
func TestNameFails(t *testing.T) {
	nowhere := NotRun("nowhere")
	for _, silent := range []bool{false, true} {
		n := newNamed(t)
		want := nowhere
		if silent {
			want = ErrResolve
			n.pass(nameLimit - time.Millisecond)
			if n.s.Err() != nil {
				t.Error("it ended early")
			}
			n.pass(10 * time.Millisecond)
			n.Named(n.s, stubAddr(1), nil)
		} else {
			n.Named(n.s, stubAddr(1), nowhere)
		}
		n.pass(time.Second)
		if !errors.Is(n.s.Err(), want) || len(n.done) != 1 || !errors.Is(n.done[0], want) {
			t.Errorf("silent %v: the session ended with %v, requests with %v", silent, n.s.Err(), n.done)
		}
		if len(n.events) != 1 || n.events[0] != session.EventClosed || n.s.fate != Refused {
			t.Errorf("silent %v: events %v, fate %d", silent, n.events, n.s.fate)
		}
		if len(n.end.sent) != 0 || len(n.handshakes.repeating) != 0 || n.Live() != 0 {
			t.Errorf("silent %v: %d packets, %d sessions later", silent, len(n.end.sent), n.Live())
		}
		n.close()
	}
}

// TestNameTakesTime: what the name has taken is not left for the server.
func TestNameTakesTime(t *testing.T) {
	n := newNamed(t)
	n.pass(nameLimit - 20*time.Millisecond)
	n.Named(n.s, stubAddr(1), nil)
	n.pass(18 * time.Millisecond)
	if n.s.Err() != nil {
		t.Errorf("it ended early: %v", n.s.Err())
	}
	n.pass(10 * time.Millisecond)
	if !errors.Is(n.s.Err(), ErrConnect) {
		t.Errorf("it ended with %v", n.s.Err())
	}
}

// TestNameTooLate: a session that is closed before its name is known connects to nobody, also when
// the endpoint has ended.
func TestNameTooLate(t *testing.T) {
	for _, all := range []bool{false, true} {
		n := newNamed(t)
		if all {
			n.close()
		} else {
			n.closeConn(n.s)
		}
		if len(n.done) != 1 || !errors.Is(n.done[0], ErrClosed) {
			t.Errorf("all %v: the requests ended with %v", all, n.done)
		}
		n.Named(n.s, stubAddr(1), nil)
		n.pass(time.Second)
		if len(n.end.sent) != 0 || n.Live() != 0 {
			t.Errorf("all %v: %d packets, %d sessions", all, len(n.end.sent), n.Live())
		}
		if _, err := n.DialName("a.host", nameLimit); (err == nil) == all {
			t.Errorf("all %v: another name: %v", all, err)
		}
	}
}
