package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// newSealedPair returns two endpoints with a sealed session between them.
func newSealedPair(t *testing.T) (p *pendingRig, client, server *Conn) {
	p = new(pendingRig)
	p.server = newStub(t, setup{PSK: testPSK}, func(q request) {
		p.ran++
		q.answer(q.data)
	})
	client, err := p.join(t, setup{PSK: testPSK})
	if err != nil {
		t.Fatal(err)
	}
	return p, client, p.server.assocs.byAddr[stubAddr(2)][0].sessions[0]
}

// inTheClear puts a packet of each kind and version in that nobody has sealed, from peer i, which
// knows all about a session: numbers, tokens, and the nonce of the attempt that opened it. Quote is
// the beginning of what the session's side sent last.
func (st *stub) inTheClear(i int, s *Conn, nonce uint64, quote []byte) {
	for _, st.version = range []uint8{wire.OldVersion, wire.Version} {
		st.clearOf(i, s, nonce, quote)
	}
}

// clearOf is inTheClear for the version of the stub's packets.
func (st *stub) clearOf(i int, s *Conn, nonce uint64, quote []byte) {
	for op := wire.OpConnect; op <= wire.OpNoKeys; op++ {
		for _, number := range []uint32{s.End.Local, wire.NoSession} {
			token := s.End.LocalToken
			if number == wire.NoSession {
				token = 0
			}
			st.receive(i, op, number, token, wire.ConnectSize, func(b []byte) {
				x := alive(s)
				switch op {
				case wire.OpConnect, wire.OpChallenge, wire.OpAccept, wire.OpRefuse, wire.OpCrypto,
					wire.OpOpen:
					c := wire.Connect{Nonce: nonce, Session: s.End.Remote, Token: s.End.RemoteToken}
					c.Put(b)
				case wire.OpNoKeys:
					copy(b, quote)
				default:
					x.Put(b)
				}
			})
		}
	}
	for typ := wire.TypeReq; typ <= wire.TypeAck; typ++ {
		if typ != wire.TypeMgmt {
			h := wire.Header{Type: typ, Version: st.version, Session: s.End.Local, ReqNum: 1}
			pkt := make([]byte, wire.HeaderSize)
			h.Put(pkt, s.End.LocalToken)
			st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(i)})
		}
	}
}

// TestClearIsNoLife: a sealed session whose peer is silent ends as lost after FailureTimeout,
// though each 200 ms packets of all kinds in the clear come, with the peer's address and all
// numbers right. None of them ends it before, and a living one none ends.
func TestClearIsNoLife(t *testing.T) {
	lived := func(side int, forged bool) time.Duration {
		p, client, server := newSealedPair(t)
		st, s, peer := p.clients[0], client, 1
		if side == 1 {
			st, s, peer = p.server, server, 2
		}
		began, next := st.now, st.now
		var quote []byte
		for s.Err() == nil {
			if forged && st.now >= next {
				st.inTheClear(peer, s, server.srv.key.nonce, quote)
				next = st.now.Add(200 * time.Millisecond)
			}
			st.pass(5 * time.Millisecond)
			for _, pkt := range st.end.sent {
				if wire.IsSealed(pkt.data) {
					quote = pkt.data[:wire.QuoteSize]
				}
			}
			if st.end.sent = nil; st.now.Sub(began) > 20*time.Second {
				t.Fatalf("side %d: it lives on", side)
			}
		}
		if !errors.Is(s.Err(), ErrPeerLost) {
			t.Errorf("side %d, forged %v: %v", side, forged, s.Err())
		}
		return st.now.Sub(began)
	}
	for side := range 2 {
		with, without := lived(side, true), lived(side, false)
		if d := (with - without).Abs(); d > 10*time.Millisecond || without > 4*time.Second {
			t.Errorf("side %d: lost after %v, without forged packets after %v", side, with, without)
		}
	}
	p, client, server := newSealedPair(t)
	for range 2000 {
		p.clients[0].inTheClear(1, client, server.srv.key.nonce, nil)
		p.server.inTheClear(2, server, server.srv.key.nonce, nil)
		p.turn(0, 5*time.Millisecond)
	}
	if client.Err() != nil || server.Err() != nil {
		t.Errorf("living sessions ended: %v, %v", client.Err(), server.Err())
	}
}

// TestSealedPeerGone: the network quotes what a client has sent to a sealed server. If that is
// silent to fresh pings its sessions end after some milliseconds, with a call under way or not, or
// after 150 ms if little is quoted. If it answers they live, whatever is quoted; nor do quotes
// count that are none.
func TestSealedPeerGone(t *testing.T) {
	for _, busy := range []bool{true, false} {
		for name, c := range map[string]struct {
			answers bool
			quote   func(all [][]byte) []byte
			gone    bool
		}{
			"gone":   {false, lastOf, true},
			"alive":  {true, lastOf, false},
			"one":    {false, func(all [][]byte) []byte { return all[0] }, true},
			"forged": {false, func(all [][]byte) []byte { return flip(lastOf(all), 20) }, false},
			"short":  {false, func(all [][]byte) []byte { return lastOf(all)[:wire.QuoteSize-1] }, false},
		} {
			p, s, _ := newSealedPair(t)
			st, got := p.clients[0], ""
			p.turn(0, 300*time.Millisecond)
			if busy {
				st.askText(s, "x", &got)
			}
			var all [][]byte
			p.said = func(pkt []byte) {
				if all = append(all, bytes.Clone(pkt)); wire.IsSealed(pkt) { // it is opened in place
					st.say(1, unreachable, c.quote(all))
				}
			}
			began := st.now
			st.say(1, unreachable, nil)
			for s.Err() == nil && st.now.Sub(began) < time.Second {
				if p.turn(0, 500*time.Microsecond); !c.answers {
					st.end.in = nil
				}
			}
			if gone := errors.Is(s.Err(), ErrPeerLost); gone != c.gone || !gone && s.Err() != nil {
				t.Errorf("%s, busy %v: %v", name, busy, s.Err())
			}
			took := st.now.Sub(began)
			if few := name == "one"; c.gone && few != (took > 20*time.Millisecond) ||
				few && took < 150*time.Millisecond {
				t.Errorf("%s, busy %v: ended after %v", name, busy, took)
			}
		}
	}
}

func lastOf(all [][]byte) []byte { return all[len(all)-1] }

// TestForgedNoKeys: an attacker who reads the path answers each sealed datagram of a client by a
// NOKEYS that quotes it. The client's session and calls go on, and it makes a handshake once a
// second at most. Quotes that are not right cause nothing.
func TestForgedNoKeys(t *testing.T) {
	const seconds = 10
	for name, c := range map[string]struct {
		quote    func(pkt []byte) []byte
		from     int
		min, max int // handshakes
	}{
		"right":   {func(pkt []byte) []byte { return pkt }, 1, 1, seconds + 1},
		"one bit": {func(pkt []byte) []byte { return flip(pkt, 23) }, 1, 0, 0},
		"the index": {func(pkt []byte) []byte {
			return append(pkt[:12:12], make([]byte, 12)...)
		}, 1, 0, 0},
		"elsewhere": {func(pkt []byte) []byte { return pkt }, 3, 0, 0},
	} {
		p, s, _ := newSealedPair(t)
		st := p.clients[0]
		handshakes, connects := 0, 0
		p.said = func(pkt []byte) {
			if wire.IsSealed(pkt) {
				st.receive(c.from, wire.OpNoKeys, wire.NoSession, 0, wire.NoKeysSize, func(b []byte) {
					copy(b[:wire.NoKeysSize], c.quote(pkt))
				})
			} else if op := wire.Op(pkt[1]); op == wire.OpCrypto {
				handshakes++
			} else if op == wire.OpConnect {
				connects++
			}
		}
		for i := range seconds * 100 {
			got := ""
			st.askText(s, "x", &got)
			for range 10 {
				p.turn(0, time.Millisecond/2)
			}
			if got != "x" {
				t.Fatalf("%s: call %d: %q, %v", name, i, got, s.Err())
			}
			p.turn(0, 5*time.Millisecond)
		}
		if handshakes < c.min || handshakes > c.max || connects > 2*c.max || s.Err() != nil {
			t.Errorf("%s: %d handshakes, %d Connects in %d s; %v", name, handshakes, connects, seconds,
				s.Err())
		}
		p.said = nil
		closeOpening(p, s)
		p.quiet()
		st.nothingLeft(name + ", client")
		p.server.nothingLeft(name + ", server")
	}
}

// TestRestartWhileAsked: a server is asked whether it lives, and answers; then it restarts. Its old
// sessions end as soon as the new process has proved who it is, or when a packet of the old one
// was still on its way, a second later.
func TestRestartWhileAsked(t *testing.T) {
	for _, late := range []bool{false, true} {
		p, s, served := newSealedPair(t)
		st, old := p.clients[0], p.server
		p.turn(0, 300*time.Millisecond)
		st.say(1, unreachable, nil)
		for range 10 {
			p.turn(0, 500*time.Microsecond)
		}
		most := 100 * time.Millisecond
		p.server = newStub(t, setup{PSK: testPSK, Seed: 77})
		p.server.now = old.now
		next := st.dialTo(1)
		for range 10 {
			p.turn(0, time.Microsecond)
		}
		if !next.Open() {
			t.Fatal(next.Err())
		}
		if late {
			served.live.Probe(served.End, 1, old.now, old.Out)
			old.pass(time.Microsecond)
			carry(old, 1, st)
			most += renewEvery
		}
		got, began := "", st.now
		st.askText(s, "x", &got)
		for s.Err() == nil && st.now.Sub(began) < 5*time.Second {
			p.turn(0, time.Millisecond)
		}
		if took := st.now.Sub(began); !errors.Is(s.Err(), ErrPeerRestarted) || took > most {
			t.Errorf("late packets %v: %v after %v", late, s.Err(), took)
		}
		if next.Err() != nil {
			t.Errorf("the new session ended: %v", next.Err())
		}
	}
}

// TestRestartOfMany: a server restarts, and clients that come back take the places of others. Those
// learn of the restart as soon.
func TestRestartOfMany(t *testing.T) {
	const clients = 20
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	var all []*Conn
	for range clients {
		s, err := p.join(t, setup{PSK: testPSK})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	now := p.server.now
	p.server = newStub(t, setup{PSK: testPSK, Seed: 77})
	p.server.now = now
	for i := clients - 1; i >= 0; i-- {
		st, s, got := p.clients[i], all[i], ""
		began := st.now
		st.askText(s, "x", &got)
		for s.Err() == nil && st.now.Sub(began) < 5*time.Second {
			p.turn(i, time.Millisecond)
		}
		if took := st.now.Sub(began); !errors.Is(s.Err(), ErrPeerRestarted) ||
			took > 100*time.Millisecond {
			t.Errorf("client %d: %v after %v", i, s.Err(), took)
		}
	}
}
