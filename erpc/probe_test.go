package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// newPingPair is an errPair that notes when pings come to the server.
func newPingPair(t *testing.T) (p *errPair, pings *[]erpc.Time) {
	p = newErrPair(t, erpc.Config{})
	p.tick = 100_000
	pings = new([]erpc.Time)
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == wire.OpPing {
			*pings = append(*pings, p.net.now)
		}
	}
	return p, pings
}

// TestRequestAsksAfterSession: a request that has timed out twice makes the client ask whether the
// server knows the session, an epoch later and long before a heartbeat. One lost packet does not.
func TestRequestAsksAfterSession(t *testing.T) {
	p, pings := newPingPair(t)
	lost := 0
	p.send.lose = func([]byte) bool { lost++; return lost == 1 }
	is(t, "a call", p.call(tEcho, 10).err, nil)
	if lost < 2 || len(*pings) != 0 {
		t.Errorf("%d packets, %d pings after one was lost", lost, len(*pings))
	}
	p.close()

	p, pings = newPingPair(t)
	p.server.Forget(p.sess)
	start := p.net.now
	res := p.enqueue(tEcho, 10, 0)
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, erpc.ErrPeerRestarted)
	const two = 15 * time.Millisecond // timeouts of 5 and 10 ms
	took, slack := p.net.now.Sub(start), 3*epoch+5*time.Duration(p.tick)
	if took < two || took > two+slack || len(*pings) != 1 {
		t.Errorf("the session ended after %v and %d pings, want %v and 1", took, len(*pings), two)
	}
	p.close()
}

// TestRequestsAskSeldom: many requests that time out ask no more often than one would, once in
// RTOMin.
func TestRequestsAskSeldom(t *testing.T) {
	p, pings := newPingPair(t)
	p.send.deaf = true
	for range 8 {
		p.enqueue(tEcho, 10, 0)
		p.pass(13)
	}
	for end := p.net.now + 300e6; p.net.now < end; p.step() {
	}
	for i, at := range *pings {
		if i > 0 && at.Sub((*pings)[i-1]) <= 5*time.Millisecond {
			t.Errorf("a ping %v after another", at.Sub((*pings)[i-1]))
		}
	}
	if len(*pings) < 5 {
		t.Errorf("%d pings", len(*pings))
	}
	p.send.deaf = false
	p.close()
}
