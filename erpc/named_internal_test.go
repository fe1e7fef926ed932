package erpc

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// names is an endpoint whose name service is the test.
type names struct {
	*stub
	answer chan error // nil leads to peer 1
	events []SessionEvent
}

func newNames(t *testing.T) *names {
	n := &names{answer: make(chan error)}
	n.stub = newStub(t, Config{OnSession: func(_ *Rpc, _ *Session, ev SessionEvent) {
		n.events = append(n.events, ev)
	}})
	n.end.resolve = func(text string) (transport.Addr, error) {
		if text != "a.host:7" {
			t.Errorf("somebody asks for %q", text)
		}
		err := <-n.answer
		return stubAddr(1), err
	}
	return n
}

// create makes a session by name, and a request that waits for it.
func (n *names) create(ended *error) *Session {
	n.tb.Helper()
	s, err := n.CreateSession("a.host:7")
	if err != nil {
		n.tb.Fatal(err)
	}
	req, err := n.Alloc(32)
	if err != nil {
		n.tb.Fatal(err)
	}
	_, err = n.EnqueueRequest(s, Request{Type: 1, Req: req, Done: func(c Completion) {
		*ended = c.Err
		c.Req.Free()
	}})
	if err != nil {
		n.tb.Fatal(err)
	}
	return s
}

// says answers, and makes passes until the loop has it.
func (n *names) says(err error) {
	n.tb.Helper()
	n.answer <- err
	for n.commands.Empty() {
		runtime.Gosched()
	}
	n.pass(1000)
}

// TestNamedSession: the loop goes on while a name is looked up. Then the session connects, with
// what the path to that address asks for, and its requests leave.
func TestNamedSession(t *testing.T) {
	n := newNames(t)
	var ended error
	s := n.create(&ended)
	for range 100 {
		n.pass(time.Millisecond)
	}
	if len(n.end.sent) != 0 || s.Connected() || s.Err() != nil || ended != nil {
		t.Fatalf("without an answer: %d packets, %v, %v", len(n.end.sent), s.Err(), ended)
	}
	n.end.way.MTU = 1400
	n.says(nil)
	var c wire.Connect
	c.Parse(n.lastSent(1, wire.OpConnect))
	if ops := n.take(); len(ops) != 1 || ops[0] != wire.OpConnect || s.Peer() != stubAddr(1) {
		t.Fatalf("with an answer: %v, to %v", ops, s.Peer())
	}
	if mtu := c.Offer.MTU; mtu != 1400 {
		t.Errorf("an MTU of %d is offered", mtu)
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
	if !s.Connected() || requests != 1 {
		t.Errorf("connected: %v, %d requests left", s.Connected(), requests)
	}
}

// TestNameFails: a name that leads nowhere ends the session and its requests, whether the service
// says so or says nothing. Its later answer changes nothing.
func TestNameFails(t *testing.T) {
	nowhere := errors.New("nowhere")
	for _, silent := range []bool{false, true} {
		n := newNames(t)
		var ended error
		s := n.create(&ended)
		if silent {
			n.pass(n.cfg.Timing.ConnectTimeout - time.Millisecond)
			if s.Err() != nil {
				t.Error("it ended early")
			}
			n.pass(10 * time.Millisecond)
		} else {
			n.says(nowhere)
		}
		if !errors.Is(s.Err(), ErrResolve) || !errors.Is(ended, ErrResolve) ||
			errors.Is(ended, nowhere) == silent {
			t.Errorf("silent %v: the session ended with %v, the request with %v", silent, s.Err(), ended)
		}
		if len(n.events) != 1 || n.events[0] != SessionRefused || n.Sessions() != 0 {
			t.Errorf("silent %v: events %v, %d sessions", silent, n.events, n.Sessions())
		}
		if silent {
			n.says(nil)
		}
		n.pass(time.Second)
		if len(n.end.sent) != 0 || n.NextWake() != monotime.Never {
			t.Errorf("silent %v: %d packets later, wakes at %v", silent, len(n.end.sent), n.NextWake())
		}
	}
}

// TestNameTooLate: a session that is closed before its name is known connects to nobody, also after
// the Rpc has ended.
func TestNameTooLate(t *testing.T) {
	n := newNames(t)
	var ended error
	s := n.create(&ended)
	if err := n.CloseSession(s); err != nil || !errors.Is(ended, ErrClosed) {
		t.Errorf("%v, the request ended with %v", err, ended)
	}
	n.says(nil)
	n.pass(time.Second)
	if len(n.end.sent) != 0 || n.Sessions() != 0 {
		t.Errorf("%d packets, %d sessions", len(n.end.sent), n.Sessions())
	}
	n.create(&ended)
	if err := n.Close(); err != nil || !errors.Is(ended, ErrClosed) {
		t.Errorf("close: %v, the request ended with %v", err, ended)
	}
	n.answer <- nil
}

// TestHasName: names of hosts are told from addresses, and from what has no name service.
func TestHasName(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.1:7": false, "[::1]:7": false, "[fe80::1%eth0]:7": false, "localhost:7": true,
		"a.host:7": true, "a.host": false, ":7": false, "shm:name": false, "": false, "a:b:c": false,
		"1.2.3:7": true,
	} {
		if got := hasName(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
