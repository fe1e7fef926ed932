package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestForgottenClient: a client is stopped for so long that its server has given up its sessions
// and forgotten the association. When it goes on it learns that from the server itself, by new
// keys, in some milliseconds: its sessions end as those that a server does not know, others open.
func TestForgottenClient(t *testing.T) {
	for _, opening := range []bool{false, true} {
		p, s, _ := newSealedPair(t)
		st := p.clients[0]
		idle := st.dialTo(1)
		for range 10 {
			p.turn(0, time.Microsecond)
		}
		if !idle.Open() {
			t.Fatal(idle.Err())
		}
		for range 1500 {
			p.server.pass(10 * time.Millisecond)
			p.server.end.sent = nil
		}
		if n := p.server.assocs.indices(t); n != 0 {
			t.Fatalf("the server remembers %d associations", n)
		}
		st.now = st.now.Add(15 * time.Second)
		began, got := st.now, ""
		st.askText(s, "x", &got)
		var next *Conn
		if opening { // another session asks for new keys before this one does
			next = st.dialTo(1)
		}
		for (s.Err() == nil || idle.Err() == nil) && st.now.Sub(began) < 10*time.Second {
			p.turn(0, 500*time.Microsecond)
		}
		if took := st.now.Sub(began); took > 100*time.Millisecond ||
			!errors.Is(s.Err(), ErrPeerRestarted) || !errors.Is(idle.Err(), ErrPeerRestarted) {
			t.Errorf("opening %v: %v and %v after %v", opening, s.Err(), idle.Err(), took)
		}
		if got != ErrPeerRestarted.Error() {
			t.Errorf("opening %v: the call: %q", opening, got)
		}
		if next == nil {
			next = st.dialTo(1)
		}
		for range 100 {
			p.turn(0, time.Millisecond)
		}
		if !next.Open() {
			t.Errorf("opening %v: the next session: %v", opening, next.Err())
		}
	}
}

// TestDisowned: a server of another name, at the same address, says that it does not know a
// session, while the session's own server is silent: the session lives as long as without that. If
// the session's own server says so, in a later association, and answers pings nevertheless, it
// lives too.
func TestDisowned(t *testing.T) {
	for _, c := range []struct {
		name  string
		alive bool
		ends  bool
	}{{"b.test", false, false}, {"a.test", true, false}, {"a.test", false, true}} {
		ca := sectest.NewCA("ours")
		own, other := newStub(t, setup{TLS: ca.Config("a.test", "")}), (*stub)(nil)
		cfg := setup{TLS: ca.Config(c.name, "")}
		cfg.Seed = 12
		other = newStub(t, cfg)
		other.handshakes.epoch = own.handshakes.epoch
		client := newStub(t, setup{TLS: ca.Config("", "spiffe://test/client"),
			Timing: session.Timing{FailureTimeout: time.Minute}})
		open := func(name string, with *stub) *Conn {
			s, err := client.Dial(stubAddr(1), name, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for range 12 {
				client.pass(time.Microsecond)
				carry(client, 2, with)
				with.pass(time.Microsecond)
				carry(with, 1, client)
			}
			if !s.Open() {
				t.Fatalf("%s: %v", name, s.Err())
			}
			return s
		}
		s := open("a.test", own)
		client.distrust(s.End.Via) // so that another dial makes keys
		open(c.name, other)
		for range 1000 {
			with := other.assocs.byAddr[stubAddr(2)][0]
			a := wire.Alive{Session: s.End.Local, Token: s.End.LocalToken}
			session.Answer(&with.addr, with.field, wire.Version, wire.OpReset, &a, other.Out)
			other.pass(time.Millisecond)
			carry(other, 1, client)
			client.pass(time.Millisecond)
			if carry(client, 2, own, other); !c.alive {
				own.end.in = nil
			}
			own.pass(time.Millisecond)
			carry(own, 1, client)
		}
		if ended := s.Err() != nil; ended != c.ends || ended && !errors.Is(s.Err(), ErrPeerRestarted) {
			t.Errorf("%+v: %v", c, s.Err())
		}
	}
}

// TestRestartOfAnother: a member of another identity proves that it is at a client's address now,
// in another incarnation, and the client is silent. Its sessions live as long as without that.
func TestRestartOfAnother(t *testing.T) {
	for _, id := range []string{"other", "member"} {
		ca := sectest.NewCA("ours")
		server := newStub(t, setup{TLS: ca.Config(tlsHost, "")})
		open := func(id string, seed uint64) *stub {
			cfg := tlsClient(ca, "spiffe://test/"+id)
			cfg.Seed = seed
			st := newStub(t, cfg)
			s := st.dialTo(1)
			for range 12 {
				st.pass(time.Microsecond)
				carry(st, 2, server)
				server.pass(time.Microsecond)
				carry(server, 1, st)
			}
			if !s.Open() {
				t.Fatal(s.Err())
			}
			return st
		}
		open("member", 31)
		gone := server.assocs.byAddr[stubAddr(2)][0].sessions[0]
		st := open(id, 32)
		timeout := server.cfg.Timing.FailureTimeout
		began := server.now
		for gone.Err() == nil {
			server.pass(5 * time.Millisecond)
			carry(server, 1, st)
			st.pass(5 * time.Millisecond)
			carry(st, 2, server)
		}
		took, early := server.now.Sub(began), errors.Is(gone.Err(), ErrPeerRestarted)
		if early != (id == "member") || early != (took < timeout/2) {
			t.Errorf("%s at her address: %v after %v", id, gone.Err(), took)
		}
	}
}

// TestKeylessBudget: datagrams with unknown indices draw as many answers in a second as the budget
// says, and some at once.
func TestKeylessBudget(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK})
	answers := 0
	for i := range 2000 {
		for j := range 20 {
			pkt := wire.AppendSealed(nil, uint64(i), uint32(1+j))
			pkt = append(pkt, make([]byte, 64)...)
			st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(3)})
		}
		st.pass(time.Millisecond)
		answers += len(st.take())
	}
	if most := keylessAtOnce + 2*keylessPerSecond; answers > most || answers < most-100 {
		t.Errorf("%d answers in two seconds, want %d", answers, most)
	}
}

// TestTrustedOpening: a server that trusts processes of its user over shared memory has no plain
// session with a client that comes in another way.
func TestTrustedOpening(t *testing.T) {
	server := newStub(t, setup{PSK: testPSK, TrustLocal: true})
	client := newStub(t, setup{})
	s := client.dialTo(1)
	for range 10 {
		client.pass(time.Microsecond)
		carry(client, 2, server)
		server.pass(time.Microsecond)
		carry(server, 1, client)
	}
	if s.Open() || !errors.Is(s.Err(), ErrInsecure) {
		t.Errorf("connected: %v, %v", s.Open(), s.Err())
	}
}
