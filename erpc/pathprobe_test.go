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
