package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// types counts the packets of each type that arrive at either end.
func (p *memPair) types() *[16]int {
	n := new([16]int)
	tap := func(pkt []byte, _ transport.Addr) { n[pkt[0]&15]++ }
	p.cend.tap, p.send.tap = tap, tap
	return n
}

// TestLongPolls: requests whose handlers wait for long take no credits and are not repeated, and
// both loops sleep between sweeps. Their answers arrive though the network loses packets.
func TestLongPolls(t *testing.T) {
	for _, early := range []bool{false, true} {
		p := newErrPair(t, erpc.Config{Slots: 4, Credits: 4, NoBundles: true})
		if early {
			p.hold = func(h erpc.ReqHandle) {
				is(t, "wait", h.Wait(), nil)
				p.held = append(p.held, h)
			}
		}
		n := p.types()
		var polls []*result
		for range 3 {
			polls = append(polls, p.enqueue(tHold, 10, 0))
		}
		p.until(func() bool { return len(p.held) == 3 && p.sess.Credits() == 4 })
		repeats := n[wire.TypeReq] - 3
		if early && repeats != 0 || n[wire.TypeWait] != 3 {
			t.Errorf("early %v: %d repeats, %d times told to wait", early, repeats, n[wire.TypeWait])
		}
		*n = [16]int{}
		p.net.now = p.net.now.Add(epoch)
		p.step()
		for name, r := range map[string]*erpc.Rpc{"client": p.client, "server": p.server} {
			if d := r.NextWake().Sub(p.net.now); d < 10*epoch {
				t.Errorf("early %v: the %s wakes up in %v", early, name, d)
			}
		}
		p.tick = 100_000
		p.pass(10_000) // a second
		is(t, "another call", p.call(tEcho, 10).err, nil)
		if n[wire.TypeReq] != 1 {
			t.Errorf("early %v: %d requests in a second", early, n[wire.TypeReq])
		}
		lost := 0
		p.cend.lose = func(pkt []byte) bool {
			if wire.Type(pkt[0]&15) != wire.TypeResp || lost == 3 {
				return false
			}
			lost++
			return true
		}
		start := p.net.now
		for _, h := range p.held {
			is(t, "respond", h.RespondBytes([]byte{7}), nil)
		}
		p.until(func() bool { return polls[0].ends+polls[1].ends+polls[2].ends == 3 })
		for _, res := range polls {
			is(t, "a poll", res.err, nil)
		}
		took, lates := p.net.now.Sub(start), p.server.Stats().Protocol.Lates
		if took > 50*time.Millisecond || lates < 3 && lost != 3 {
			t.Errorf("early %v: the answers took %v", early, took)
		}
		p.pass(1000)
		longest := time.Duration(0)
		for range 20 {
			p.pass(100)
			longest = max(longest, p.server.NextWake().Sub(p.net.now))
		}
		if longest < 10*epoch {
			t.Errorf("early %v: all is acknowledged, and the server wakes up after %v", early, longest)
		}
		p.close()
	}
}

// TestWaitingLimit: of one session's requests no more than agreed wait without credits.
func TestWaitingLimit(t *testing.T) {
	for _, c := range []struct{ cfg, credits int }{{-1, 4}, {1, 5}, {3, 7}, {0, 8}} {
		p := newErrPair(t, erpc.Config{Slots: 8, Credits: 8, Waiting: c.cfg})
		for range 4 {
			p.enqueue(tHold, 10, 0)
		}
		p.until(func() bool { return len(p.held) == 4 })
		p.tick = 100_000
		p.pass(5000)
		if got := p.sess.Credits(); got != c.credits {
			t.Errorf("waiting %d: %d credits are free, want %d", c.cfg, got, c.credits)
		}
		for _, h := range p.held {
			is(t, "respond", h.RespondBytes(nil), nil)
			is(t, "wait", h.Wait(), erpc.ErrResponded)
		}
		p.pass(100)
		p.close()
	}
}

// TestLateAnswerInTime: at 2 % loss 999 of 1,000 late answers arrive within 50 ms.
func TestLateAnswerInTime(t *testing.T) {
	p := newErrPair(t, erpc.Config{Slots: 1, NoBundles: true})
	p.hold = func(h erpc.ReqHandle) {
		_ = h.Wait()
		p.held = append(p.held, h)
	}
	p.tick = 50_000
	dice := uint32(1)
	lose := func([]byte) bool {
		dice = dice*1664525 + 1013904223
		return dice>>8%50 == 0
	}
	slow := 0
	for range 2000 {
		p.held, p.cend.lose, p.send.lose = nil, nil, nil
		res := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) == 1 && p.sess.Credits() > 1 })
		p.cend.lose, p.send.lose = lose, lose
		start := p.net.now
		is(t, "respond", p.held[0].RespondBytes(nil), nil)
		p.until(func() bool { return res.ends > 0 })
		if p.net.now.Sub(start) > 50*time.Millisecond {
			slow++
		}
	}
	if slow > 2 {
		t.Errorf("%d of 2,000 late answers took more than 50 ms", slow)
	}
	p.cend.lose, p.send.lose = nil, nil
	p.close()
}

// TestOutOfStep: a damaged request number that no checksum caught uses a slot's numbers up. The
// session ends with a name for that, and a new one works.
func TestOutOfStep(t *testing.T) {
	p := newErrPair(t, erpc.Config{Slots: 1, NoBundles: true})
	is(t, "a call", p.call(tEcho, 10).err, nil)
	p.send.tap = nil
	damaged := false
	p.send.lose = func(pkt []byte) bool {
		if wire.Type(pkt[0]&15) == wire.TypeReq && !damaged {
			damaged = true
			pkt[17] ^= 0x40
		}
		return false
	}
	start := p.net.now
	res := p.enqueue(tEcho, 10, 0)
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, erpc.ErrOutOfStep)
	is(t, "the session", p.sess.Err(), erpc.ErrOutOfStep)
	if took := p.net.now.Sub(start); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	p.connect()
	is(t, "a call of the next session", p.call(tEcho, 10).err, nil)
	p.close()
}
