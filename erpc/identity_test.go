package erpc_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestCapturedConnects: a Connect of a session's opening comes again, with a smaller size, and a
// checksum made right, before the session is used or after. It goes on as before, with messages of
// many packets.
func TestCapturedConnects(t *testing.T) {
	for _, mtu := range []uint32{1400, 1232, session.MinMTU} {
		for which := range 2 {
			for _, used := range []bool{false, true} {
				capturedConnect(t, mtu, which, used)
			}
		}
	}
}

func capturedConnect(t *testing.T, mtu uint32, which int, used bool) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{Slots: 8, Credits: 16, PSK: testPSK})
	p.unknown()
	var captured [][]byte
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		if !sealed(pkt) && wire.Op(pkt[1]) == wire.OpConnect {
			captured = append(captured, bytes.Clone(pkt))
		}
	}
	p.connect()
	p.send.tap = nil
	before := p.sess.Params()
	if used {
		is(t, "a call", p.call(tEcho, 10).err, nil)
	}
	pkt := captured[which]
	var c wire.Connect
	c.Parse(pkt[wire.HeaderSize:])
	c.Offer.MTU = mtu
	c.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, 0)
	p.send.put(pkt, nil, &p.cend.addr)
	p.step()
	for range 3 {
		res := p.enqueue(tEcho, 6000, time.Second)
		p.until(func() bool { return res.ends > 0 })
		is(t, "a call", res.err, nil)
	}
	if p.sess.Params() != before || p.server.Sessions() != 1 {
		t.Errorf("MTU %d: %+v, was %+v; %d sessions", mtu, p.sess.Params(), before,
			p.server.Sessions())
	}
	p.close()
}

// TestPortSwaps: in plain mode a tenth of a client's packets come from another port, to which
// answers arrive, too. No session ends, and no call fails.
func TestPortSwaps(t *testing.T) {
	calls := 20_000
	if testing.Short() {
		calls = 2000
	}
	r := rand.New(rand.NewPCG(1, 39))
	p := newErrPair(t, erpc.Config{})
	first := p.cend.addr
	p.net.ends = append(p.net.ends, p.cend)
	other := first
	other.Port = uint32(len(p.net.ends))
	swapped := 0
	p.net.route = func(to int, _ []byte) int {
		if p.cend.addr = first; to == 1 && r.IntN(10) == 0 {
			p.cend.addr = other // of this packet
			swapped++
		}
		return to
	}
	for i := range calls {
		res := p.enqueue(tEcho, 20, 0)
		p.until(func() bool { return res.ends > 0 })
		if res.err != nil {
			t.Fatalf("call %d of %d: %v", i, calls, res.err)
		}
	}
	if swapped < calls/20 {
		t.Errorf("%d packets came from the other port", swapped)
	}
	p.net.route = nil
	p.cend.addr = first
	p.close()
}
