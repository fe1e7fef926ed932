package erpc_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// rebind gives a client another address: nothing that goes to the one before arrives.
func (p *errPair) rebind() {
	p.net.ends = append(p.net.ends, p.cend)
	p.cend.addr.Port = uint32(len(p.net.ends))
	at := len(p.net.ends) - 1
	nowhere := p.net.end(true) // takes what is lost
	nowhere.lose = func([]byte) bool { return true }
	lost := len(p.net.ends) - 1
	p.net.route = func(to int, _ []byte) int {
		if p.net.ends[to] == p.cend && to != at {
			return lost
		}
		return to
	}
}

// TestMigrations: the sessions of a client whose address changes go along, with calls under way
// that run once; then new ones open by the same keys.
func TestMigrations(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
	ran := 0
	p.hold = func(h erpc.ReqHandle) {
		ran++
		_ = h.RespondBytes(h.Data())
	}
	first := p.sess
	p.connect()
	is(t, "a call", p.call(tHold, 10).err, nil)
	for i := 1; i <= 3; i++ {
		p.rebind()
		start := p.net.now
		res := p.enqueue(tHold, 6000, 0)
		p.until(func() bool { return res.ends > 0 })
		is(t, "the call", res.err, nil)
		if took := p.net.now.Sub(start); took > 30*time.Millisecond || ran != 1+i {
			t.Errorf("it took %v, %d handlers ran", took, ran)
		}
		if n := p.server.Counters().SessionsMoved; n != uint64(2*i) {
			t.Errorf("%d sessions moved", n)
		}
	}
	p.sess = first
	is(t, "a call of the other session", p.call(tHold, 10).err, nil)
	p.connect()
	is(t, "a call of a new one", p.call(tHold, 10).err, nil)
	for name, r := range map[string]*erpc.Rpc{"client": p.client, "server": p.server} {
		if n, _ := r.Associations(); n != 1 {
			t.Errorf("%s: %d associations", name, n)
		}
	}
	if n := p.server.Sessions(); n != 3 || p.client.Sessions() != 3 {
		t.Errorf("%d sessions", n)
	}
	p.close()
}

// TestMovesUnderway: addresses change at any moment, under loss and repetition, and each call ends
// well, once.
func TestMovesUnderway(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	var moved uint64
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		cfg := erpc.Config{PSK: testPSK, KeyUpdate: 10 * time.Millisecond, NoBundles: seed%2 == 0}
		cfg.Timing.FailureTimeout = 20 * time.Second
		p := newErrPairOn(t, newMemNet(), cfg)
		ran := 0
		p.hold = func(h erpc.ReqHandle) { ran++; _ = h.RespondBytes(h.Data()) }
		p.tick = erpc.Time(1000 + r.IntN(50_000))
		lose := func([]byte) bool { return r.IntN(20) == 0 }
		p.cend.lose, p.send.lose = lose, lose
		var calls []*result
		for i := range 30 {
			calls = append(calls, p.enqueue(tHold, 1+r.IntN(9000), 0))
			if i%10 == 9 {
				p.rebind()
			}
			for range r.IntN(60) {
				p.step()
			}
		}
		for _, res := range calls {
			p.until(func() bool { return res.ends > 0 })
			if res.err != nil {
				t.Fatalf("seed %d: %v", seed, res.err)
			}
		}
		if ran != len(calls) {
			t.Errorf("seed %d: %d handlers ran for %d calls", seed, ran, len(calls))
		}
		moved += p.server.Counters().SessionsMoved
		p.cend.lose, p.send.lose = nil, nil
		p.close()
	}
	if moved < uint64(seeds) {
		t.Errorf("%d moves in %d runs", moved, seeds)
	}
}

// sealedPong is the size of a sealed answer to a question, in bytes. Requests of one byte, alone or
// some in a bundle, have others.
const sealedPong = wire.HeaderSize + wire.AliveSize + security.Overhead

// TestSpoofedMove: an attacker that copies packets and is faster than their sender makes the server
// ask at the address that the copies come from, with less than three times their bytes. Nothing
// moves then, and an answer from another address than the one that was asked moves nothing either.
// If the attacker carries questions and answers, as a translator on the path would, the sessions
// move, and come back when it stops. Calls go on in any case.
func TestSpoofedMove(t *testing.T) {
	for _, c := range []struct{ asks, answers, from bool }{
		{}, {asks: true}, {asks: true, from: true}, {asks: true, answers: true},
	} {
		p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
		there, third := p.net.end(true), p.net.end(true)
		third.lose = func([]byte) bool { return true }
		got, sent, asked := 0, 0, 0
		p.net.route = func(to int, pkt []byte) int {
			pong := len(pkt) == sealedPong
			if to == 1 && sealed(pkt) && (c.answers || !pong) { // the copy is there first
				p.send.put(pkt, nil, &there.addr)
				sent += len(pkt)
			} else if to == 1 && c.from && pong { // an answer, from an address that was not asked
				p.send.put(pkt, nil, &third.addr)
			}
			return to
		}
		there.lose = func(pkt []byte) bool {
			got += len(pkt)
			asked++
			if c.asks { // as if it came from the server
				p.cend.put(bytes.Clone(pkt), nil, &p.send.addr)
			}
			return true
		}
		for range 50 {
			is(t, "a call", p.call(tEcho, 1).err, nil)
			if got > 3*sent {
				t.Fatalf("%d bytes went to a stranger who sent %d", got, sent)
			}
		}
		if n := p.server.Counters().SessionsMoved; (n != 0) != c.answers || asked == 0 {
			t.Errorf("%+v: %d sessions moved, %d questions", c, n, asked)
		}
		p.net.route = nil
		is(t, "a call without him", p.call(tEcho, 1000).err, nil)
		there.lose = func([]byte) bool { t.Error("the session is still there"); return true }
		is(t, "another call", p.call(tEcho, 1000).err, nil)
		p.close()
	}
}

// TestMoveWindow: a packet that is not the newest draws no question, and questions have a pace.
func TestMoveWindow(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{
		PSK: testPSK, Slots: 32, Credits: 32, NoBundles: true,
	})
	stranger := p.net.end(true)
	asked := 0
	stranger.lose = func([]byte) bool { asked++; return true }
	var stored [][]byte
	p.send.lose = func(pkt []byte) bool {
		if sealed(pkt) && len(stored) < 20 { // requests: all else comes later
			stored = append(stored, bytes.Clone(pkt))
			return true
		}
		return false
	}
	var calls []*result
	for range 21 {
		calls = append(calls, p.enqueue(tEcho, 1, 0))
	}
	p.pass(5000)
	put := func(pkt []byte, from transport.Addr) {
		p.send.put(pkt, nil, &from)
		p.run(p.server)
	}
	for _, pkt := range stored {
		put(pkt, stranger.addr) // older than the last one, which came
	}
	if asked != 0 || len(stored) != 20 {
		t.Errorf("%d questions for %d old packets", asked, len(stored))
	}
	for _, res := range calls {
		p.until(func() bool { return res.ends > 0 })
		is(t, "a call", res.err, nil)
	}
	calls, stored = nil, nil
	p.send.lose = func(pkt []byte) bool { stored = append(stored, bytes.Clone(pkt)); return true }
	for range 20 {
		calls = append(calls, p.enqueue(tEcho, 1, 0))
	}
	p.pass(5000)
	p.send.lose = nil
	for _, pkt := range stored {
		put(pkt, stranger.addr) // all of them new, at once
	}
	if asked != 1 {
		t.Errorf("%d questions for %d packets at a time", asked, len(stored))
	}
	for _, res := range calls {
		p.until(func() bool { return res.ends > 0 })
		is(t, "a call", res.err, nil)
	}
	p.close()
}

// TestMoveOtherPong: an attacker that copies packets draws a question to where it is, and then
// brings from there what the client answers to other questions. Only the answer to that one moves
// the sessions: nothing else proves that the client is there.
func TestMoveOtherPong(t *testing.T) {
	u := &unsealer{tb: t}
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK, KeyLog: &u.log})
	there := p.net.end(true)
	asked, pongs, copies := 0, 0, 0
	there.lose = func([]byte) bool { asked++; return true }
	p.net.route = func(to int, pkt []byte) int {
		if to != 1 || !sealed(pkt) {
			return to
		}
		switch u.op(pkt) {
		case 0:
			copies++
			p.send.put(pkt, nil, &there.addr) // the copy is there first
		case wire.OpPing:
			return 2 // so that the server asks, too
		case wire.OpPong:
			pongs++
			p.send.put(pkt, nil, &there.addr)
		}
		return to
	}
	for range 3 {
		is(t, "a call", p.call(tEcho, 1).err, nil)
		p.tick = 1_000_000
		for before, end := pongs, p.net.now.Add(2900*time.Millisecond); pongs == before; p.step() {
			if p.net.now > end {
				t.Fatal("the server did not ask")
			}
		}
		p.tick = 1000
	}
	if n := p.server.Counters().SessionsMoved; n != 0 || asked == 0 || copies == 0 {
		t.Errorf("%d sessions moved; %d questions, %d copies", n, asked, copies)
	}
	is(t, "another call", p.call(tEcho, 1000).err, nil)
	p.close()
}
