package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// narrow makes a path carry packets of up to n bytes, in the directions asked for.
func (p *memPair) narrow(n int, there, back bool) {
	lose := func(pkt []byte) bool { return len(pkt) > n }
	p.send.lose, p.cend.lose = nil, nil
	if there {
		p.send.lose = lose
	}
	if back {
		p.cend.lose = lose
	}
}

// TestPathNarrows: the path of a living session carries less from now on, in one direction or in
// both. Calls under way end with their responses within 2 s, each handler runs once, and the other
// sessions with the peer know.
func TestPathNarrows(t *testing.T) {
	for _, size := range []int{1460, 1300, 1100} {
		for way := 1; way <= 3; way++ {
			p := newErrPair(t, erpc.Config{})
			ran := 0
			p.hold = func(h erpc.ReqHandle) {
				ran++
				_ = h.RespondBytes(h.Data())
			}
			first := p.sess
			p.connect()
			other := p.sess
			p.sess = first
			is(t, "a call", p.call(tHold, 16_000).err, nil)
			p.tick = 20_000
			ran = 0
			p.narrow(size, way&1 != 0, way&2 != 0)
			start := p.net.now
			var calls []*result
			for i := range 5 {
				calls = append(calls, p.enqueue(tHold, 16_000+i*100, 0))
			}
			left := len(calls)
			p.until(func() bool {
				left = 0
				for _, res := range calls {
					left += 1 - res.ends
				}
				return left == 0
			})
			if took := p.net.now.Sub(start); took > 2*time.Second || ran != 5 {
				t.Errorf("%d bytes, way %d: %d handlers ran, it took %v", size, way, ran, took)
			}
			for _, res := range calls {
				is(t, "a call under way", res.err, nil)
				if len(res.resp) < 16_000 || !isPattern(res.resp) {
					t.Errorf("a response of %d bytes", len(res.resp))
				}
			}
			for _, s := range []*erpc.Session{first, other} {
				if n := s.Params().PerPacket + wire.HeaderSize; n > size {
					t.Errorf("%d bytes, way %d: a session has packets of %d", size, way, n)
				}
				p.sess = s
				start = p.net.now
				is(t, "a call after it", p.call(tHold, 16_000).err, nil)
				if took := p.net.now.Sub(start); took > 20*time.Millisecond {
					t.Errorf("%d bytes, way %d: a call after it took %v", size, way, took)
				}
			}
			p.close()
		}
	}
}

func isPattern(b []byte) bool {
	want := make([]byte, len(b))
	fillPattern(want)
	return string(b) == string(want)
}

// TestPathStaysWide: packets keep their size while large ones come through now and then, while the
// peer is silent, and while handlers are slow.
func TestPathStaysWide(t *testing.T) {
	for name, c := range map[string]func(p *errPair){
		"a loss of a third": func(p *errPair) {
			dice := uint32(7)
			lose := func([]byte) bool {
				dice = dice*1664525 + 1013904223
				return dice>>8%3 == 0
			}
			p.send.lose, p.cend.lose = lose, lose
		},
		"silence": func(p *errPair) { p.send.deaf = true },
		"slow handlers": func(p *errPair) {
			p.hold = func(h erpc.ReqHandle) { p.held = append(p.held, h) }
		},
	} {
		p := newErrPair(t, erpc.Config{})
		p.hold = func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
		p.tick = 50_000
		c(p)
		for range 8 {
			p.enqueue(tHold, 10_000, 0)
		}
		p.pass(20_000) // a second
		if n := p.sess.Params().PerPacket + wire.HeaderSize; n != memMTU {
			t.Errorf("%s: packets of %d bytes", name, n)
		}
		p.send.lose, p.cend.lose, p.send.deaf = nil, nil, false
		p.close()
	}
}

// TestPathProbesRest: on a path that goes on losing packets a session asks for the packet size, and
// is paused meanwhile, a fifth of the time at most.
func TestPathProbesRest(t *testing.T) {
	p := newErrPair(t, erpc.Config{NoBundles: true})
	p.hold = func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	p.tick = 50_000
	dice := uint32(7)
	lose := func([]byte) bool {
		dice = dice*1664525 + 1013904223
		return dice>>8%3 == 0
	}
	p.send.lose = lose
	var pings []erpc.Time // of more than 1,000 bytes
	p.cend.memFaults = &memFaults{lose: lose, left: func(head, data []byte) {
		if wire.Type(head[0]&0xF) == wire.TypeMgmt && len(head)+len(data) > 1000 {
			pings = append(pings, p.net.now)
		}
	}}
	const probeGap = 50_000_000 // pings of one probe are closer
	var asked, first, last erpc.Time
	const total = 8_000_000_000
	for range 8 {
		p.enqueue(tHold, 100_000, 0)
	}
	for range total / p.tick {
		p.pass(1)
		for p.sess.Connected() && pending(p.sess) < 8 {
			p.enqueue(tHold, 100_000, 0)
		}
	}
	for i, at := range pings {
		if i == 0 || at-last > probeGap {
			asked += last - first
			first = at
		}
		last = at
	}
	asked += last - first
	if asked == 0 || asked > total/4 {
		t.Errorf("it asked for %v of %v, in %d pings", time.Duration(asked), time.Duration(total),
			len(pings))
	}
	p.send.lose, p.cend.lose = nil, nil
	p.close()
}

func pending(s *erpc.Session) int {
	n, queued := s.Pending()
	return n + queued
}
