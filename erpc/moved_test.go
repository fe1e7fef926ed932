package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestAddressChanges: a client whose packets come from another address from now on, as behind a
// translator that has forgotten it, learns that by its first unanswered question, and asks three
// times more. The session ends, since it never moves to another address, and the next one works
// from there.
func TestAddressChanges(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	ran := 0
	p.hold = func(h erpc.ReqHandle) {
		ran++
		_ = h.RespondBytes(nil)
	}
	is(t, "a call", p.call(tHold, 10).err, nil)
	p.net.ends = append(p.net.ends, p.cend) // packets to the new address arrive, too
	p.cend.addr.Port = uint32(len(p.net.ends))
	start := p.net.now
	res := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, erpc.ErrPeerLost)
	// Timeouts of 5 and 10 ms, then one round trip, and a series of pings that has three in 5 ms.
	if took := p.net.now.Sub(start); took > 20*time.Millisecond+6*epoch || ran != 1 {
		t.Errorf("it took %v, %d handlers ran", took, ran)
	}
	p.connect()
	is(t, "a call from there", p.call(tHold, 10).err, nil)
	p.close()
}
