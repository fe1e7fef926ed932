package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/wire"
)

// TestAbandonedDial: a client gives a dial up when its server has opened the session, and the
// Accept is under way. One packet follows, and the session ends, with keys that the dial has made
// and with those that there were.
func TestAbandonedDial(t *testing.T) {
	both := sectest.NewCA("ours").Config(tlsHost, "")
	both.ServerName = tlsHost
	for name, cfg := range map[string]setup{
		"plain": {}, "a shared key": {PSK: testPSK}, "TLS": {TLS: both},
	} {
		p := &farewells{client: newStub(t, cfg)}
		cfg.Seed, cfg.OnSession = 10, p.note
		p.server = newStub(t, cfg)
		for i := range 3 {
			s := p.client.dialTo(1)
			for p.server.Live() == 0 && s.Err() == nil {
				p.client.pass(time.Microsecond)
				p.ferry(t)
				p.server.pass(time.Microsecond)
			}
			p.client.closeConn(s)
			sent := 0
			for range 5 {
				sent += p.ferry(t)
				p.client.pass(time.Microsecond)
				sent += p.ferry(t)
				p.server.pass(time.Microsecond)
			}
			if sent != 1 || p.server.Live() != 0 || p.client.Live() != 0 {
				t.Errorf("%s, dial %d: %d packets followed; %d sessions at the server, %d at the client",
					name, i, sent, p.server.Live(), p.client.Live())
			}
			if len(p.ended) != i+1 || !errors.Is(p.ended[i], ErrPeerClosed) {
				t.Errorf("%s, dial %d: sessions ended with %v", name, i, p.ended)
				break
			}
		}
	}
}

// TestAbandonedAccepts: an Accept for a dial that has ended is answered if it is right, comes
// within a second, and the server had given a cookie; else nothing is said.
func TestAbandonedAccepts(t *testing.T) {
	type trial struct {
		from    int           // the peer from which the Accept comes, of which 1 was dialled
		nonce   uint64        // that is added to the right one
		token   uint32        // the same
		blank   bool          // no Challenge came
		limit   time.Duration // when the dial ends by itself; 0: it is given up
		after   time.Duration // until the Accept comes
		accepts int
		answers int
	}
	for name, c := range map[string]trial{
		"given up":        {from: 1, accepts: 1, answers: 1},
		"its time was up": {from: 1, limit: 20 * time.Millisecond, accepts: 1, answers: 1},
		"late":            {from: 1, after: abandonedFor * 9 / 10, accepts: 1, answers: 1},
		"too late":        {from: 1, after: abandonedFor, accepts: 1},
		"no Challenge":    {from: 1, blank: true, accepts: 1},
		"another nonce":   {from: 1, nonce: 1, accepts: 1},
		"another token":   {from: 1, token: 1, accepts: 1},
		"another address": {from: 2, accepts: 1},
		"again and again": {from: 1, accepts: 20, answers: maxDeclined},
	} {
		st := newStub(t, setup{})
		st.SetNow(st.now)
		limit := c.limit
		if limit == 0 {
			limit = st.cfg.Timing.ConnectTimeout
		}
		s, err := st.Dial(stubAddr(1), "", limit)
		if err != nil {
			t.Fatal(err)
		}
		x := s.dialer.Connect
		st.pass(1000)
		if !c.blank {
			ch := wire.Challenge{Nonce: x.Nonce, Cookie: [wire.CookieSize]byte{1}}
			st.receive(1, wire.OpChallenge, x.Session, x.Token, wire.ChallengeSize, ch.Put)
			st.pass(1000)
		}
		if c.limit > 0 {
			st.pass(c.limit)
		} else {
			st.closeConn(s)
		}
		if !s.Ended() {
			t.Fatalf("%s: the dial goes on", name)
		}
		st.pass(max(c.after, 1000) - 1000)
		st.take()
		a := wire.Accept{Nonce: x.Nonce + c.nonce, Epoch: 3, Session: 5, Token: 6, Offer: x.Offer}
		for range c.accepts {
			st.receive(c.from, wire.OpAccept, x.Session, x.Token+c.token, wire.AcceptSize, a.Put)
		}
		st.pass(1000)
		want := slices.Repeat([]wire.Op{wire.OpDisconnect}, c.answers)
		if got := st.take(); !slices.Equal(got, want) {
			t.Errorf("%s: answered with %v, want %v", name, got, want)
		}
		st.pass(time.Minute)
		if n := len(st.take()); n > 0 || st.WakeAt() != monotime.Never {
			t.Errorf("%s: %d packets later, and the endpoint wants to wake up", name, n)
		}
	}
}

// TestAbandonedMany: of many dials that are given up together, the latest are known.
func TestAbandonedMany(t *testing.T) {
	st := newStub(t, setup{})
	var all []wire.Connect
	for range 2*maxAbandoned + 10 {
		s := st.dialTo(1)
		x := s.dialer.Connect
		all = append(all, x)
		ch := wire.Challenge{Nonce: x.Nonce, Cookie: [wire.CookieSize]byte{1}}
		st.receive(1, wire.OpChallenge, x.Session, x.Token, wire.ChallengeSize, ch.Put)
		st.pass(1000)
		st.closeConn(s)
	}
	st.take()
	for i, x := range all {
		a := wire.Accept{Nonce: x.Nonce, Epoch: 3, Session: 5, Token: 6, Offer: x.Offer}
		st.receive(1, wire.OpAccept, x.Session, x.Token, wire.AcceptSize, a.Put)
		st.pass(1000)
		known := i >= len(all)-maxAbandoned
		if n := len(st.take()); (n == 1) != known || n > 1 {
			t.Errorf("dial %d of %d: %d answers", i, len(all), n)
		}
	}
}

// TestDeniedServer: a server that Authorize refuses, once it has opened the session, is told so.
func TestDeniedServer(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK, TrustLocal: true,
		Authorize: func(context.Context, *Identity) error { return errors.New("not this one") }})
	st.end.way.Private = true
	s := st.dialTo(1)
	x := s.dialer.Connect
	ch := wire.Challenge{Nonce: x.Nonce, Cookie: [wire.CookieSize]byte{1}}
	st.receive(1, wire.OpChallenge, x.Session, x.Token, wire.ChallengeSize, ch.Put)
	st.pass(1000)
	st.take()
	a := wire.Accept{Nonce: x.Nonce, Epoch: 3, Session: 5, Token: 6, Offer: x.Offer}
	st.receive(1, wire.OpAccept, x.Session, x.Token, wire.AcceptSize, a.Put)
	st.pass(1000)
	st.pass(1000)
	ops := st.take()
	if !errors.Is(s.Err(), ErrDenied) || !slices.Equal(ops, []wire.Op{wire.OpDisconnect}) {
		t.Errorf("the session ended with %v, the server was told %v", s.Err(), ops)
	}
}
