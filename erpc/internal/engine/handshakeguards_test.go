package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestChangedOpening: somebody on the path who changes what a client or the server says of itself
// in the clear, each time in the same way and with right checksums, makes the handshake fail.
func TestChangedOpening(t *testing.T) {
	for name, c := range map[string]struct {
		op wire.Op
		at int // of the byte that changes
	}{
		"the client's epoch":  {wire.OpConnect, wire.HeaderSize + 8},
		"what it offers":      {wire.OpConnect, wire.HeaderSize + 24},
		"the client's index":  {wire.OpConnect, wire.HeaderSize + wire.ConnectSize + 4},
		"the server's epoch":  {wire.OpChallenge, wire.HeaderSize + wire.ChallengeSize},
		"the client's number": {wire.OpConnect, wire.HeaderSize + 19},
	} {
		cfg := setup{PSK: testPSK}
		client := newStub(t, cfg)
		cfg.Seed = 10
		server := newStub(t, cfg)
		s := client.dialTo(1)
		carry := func(from, to *stub, as int) {
			for _, pkt := range from.end.sent {
				if !wire.IsSealed(pkt.data) && wire.Op(pkt.data[1]) == c.op {
					token := wire.OpenMgmt(pkt.data)
					pkt.data[c.at] ^= 1
					wire.SealMgmt(pkt.data, token)
				}
				to.end.in = append(to.end.in, transport.RxPacket{Data: pkt.data, From: stubAddr(as)})
			}
			from.end.sent = nil
		}
		for range 20 {
			client.pass(time.Microsecond)
			carry(client, server, 2)
			server.pass(time.Microsecond)
			carry(server, client, 1)
		}
		if s.Open() || !errors.Is(s.Err(), ErrDenied) {
			t.Errorf("%s: connected %v, %v", name, s.Open(), s.Err())
		}
	}
}

// TestServerOpensNothing: a server that asks its client for a session, on the association that the
// client has opened, gets none.
func TestServerOpensNothing(t *testing.T) {
	p := newFarewells(t, setup{PSK: testPSK})
	a := p.server.assocs.watched[0]
	c := wire.Connect{Nonce: 7, Epoch: 1, Session: 5, Token: 6, Offer: p.s.End.Offer()}
	p.server.Out.Mgmt(&a.addr, a.field, wire.Version, wire.OpOpen, wire.NoSession, 0,
		wire.ConnectSize, int(c.Offer.MTU), c.Put)
	for range 3 {
		p.server.pass(time.Microsecond)
		p.ferry(t)
		p.client.pass(time.Microsecond)
		p.ferry(t)
	}
	if n := p.client.table.live; n != 1 {
		t.Errorf("the client has %d sessions", n)
	}
	if n := p.client.stats.DropRole; n != 1 {
		t.Errorf("%d packets were refused", n)
	}
}

// TestQuotesBeforeQuestions: the network's quotes of sealed datagrams end nothing before the server
// was asked twice, however many come at once.
func TestQuotesBeforeQuestions(t *testing.T) {
	p, s, _ := newSealedPair(t)
	st, got := p.clients[0], ""
	var all [][]byte
	p.said = func(pkt []byte) { all = append(all, bytes.Clone(pkt)) }
	for range 4 {
		st.askText(s, "x", &got)
		p.turn(0, 10*time.Millisecond)
	}
	for _, pkt := range all {
		st.say(1, unreachable, pkt)
	}
	st.end.in = nil // what the server had said
	st.pass(2 * time.Millisecond)
	if len(all) < quotesNeeded || s.Err() != nil {
		t.Errorf("%d datagrams were quoted: %v", len(all), s.Err())
	}
}

// TestNewKeysForNewSessions: when there are other keys a session opens by these, though those
// of before are still there.
func TestNewKeysForNewSessions(t *testing.T) {
	var latest *Credentials
	p := newFarewells(t, setup{PSK: testPSK, Latest: func() *Credentials { return latest }})
	latest = &Credentials{PSK: [][]byte{[]byte("another key of 32 bytes, as new.")}}
	s := p.client.dialTo(1)
	for range 10 {
		p.client.pass(time.Microsecond)
		p.ferry(t)
		p.server.pass(time.Microsecond)
		p.ferry(t)
	}
	if !s.Open() || !p.s.Open() || s.assoc == p.s.assoc {
		t.Errorf("connected: %v, %v; the same keys: %v", s.Open(), p.s.Open(),
			s.assoc == p.s.assoc)
	}
}
