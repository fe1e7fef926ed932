package erpc_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// connectPair is a pair with a new session, whose Connect can be repeated.
type connectPair struct {
	*errPair
	connect wire.Connect // the last one with a cookie that came to the server
	accept  wire.Accept  // the last one that came to the client
	largest int          // packet of the session that came to either side, bytes
}

func newConnectPair(t *testing.T, cfg erpc.Config) *connectPair {
	p := &connectPair{errPair: newErrPair(t, cfg)}
	tap := func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		switch err := h.Parse(pkt); {
		case err != nil:
		case h.Type != wire.TypeMgmt:
			p.largest = max(p.largest, len(pkt))
		case wire.Op(h.ReqType) == wire.OpConnect:
			p.connect.Parse(pkt[wire.HeaderSize:])
		case wire.Op(h.ReqType) == wire.OpAccept:
			p.accept.Parse(pkt[wire.HeaderSize:])
		}
	}
	p.cend.tap, p.send.tap = tap, tap
	p.errPair.connect()
	return p
}

// again repeats the Connect with another MTU, and returns what the Accept to it says.
func (p *connectPair) again(t *testing.T, mtu int) int {
	t.Helper()
	c := p.connect
	c.Offer.MTU = uint32(mtu)
	p.accept = wire.Accept{}
	pkt := make([]byte, max(mtu, wire.HeaderSize+wire.ConnectSize))
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: wire.ConnectSize,
		Session: wire.NoSession,
	}
	h.Put(pkt, 0)
	c.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, 0)
	p.send.put(pkt, nil, &p.cend.addr)
	p.run(p.server)
	if p.accept.Nonce != c.Nonce {
		t.Fatalf("the answer to a repeated Connect is %+v", p.accept)
	}
	return int(p.accept.Offer.MTU)
}

// TestLowerMTU: a client that finds its path narrower than it had offered may say so until the
// session is used, and not ask for more again.
func TestLowerMTU(t *testing.T) {
	p := newConnectPair(t, erpc.Config{})
	for _, c := range []struct{ ask, want int }{
		{memMTU, memMTU}, {1300, 1300}, {1400, 1300}, {erpc.MinMTU - 1, 1300}, {0, 1300},
		{1299, 1299}, {erpc.MinMTU, erpc.MinMTU}, {memMTU, erpc.MinMTU},
	} {
		if got := p.again(t, c.ask); got != c.want {
			t.Errorf("asked for packets of %d bytes, got %d, want %d", c.ask, got, c.want)
		}
	}
	p.close()
}

// TestMTUOfUsedSession: the packets of a session that was used keep their size, whatever a late
// Connect says: packet numbers depend on it.
func TestMTUOfUsedSession(t *testing.T) {
	p := newConnectPair(t, erpc.Config{})
	res := p.enqueue(tEcho, 5000, 0)
	room := 1 // for the first packet
	p.cend.takes = func(int) int { n := room; room = 0; return n }
	p.run(p.client)
	p.run(p.server)
	if got := p.again(t, 1200); got != memMTU {
		t.Errorf("the session has packets of %d bytes after a packet of a request", got)
	}
	p.cend.takes = nil
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, nil)
	for _, mtu := range []int{erpc.MinMTU, 1200, memMTU - 1} {
		if got := p.again(t, mtu); got != memMTU {
			t.Errorf("the session has packets of %d bytes after a call", got)
		}
		is(t, "another call", p.call(tEcho, 20_000).err, nil)
	}
	p.net.now = p.net.now.Add(epoch)
	p.step()
	if st := p.server.Stats().Protocol; st.DropSize != 0 || st.Retransmits != 0 {
		t.Errorf("the server got packets of the wrong size: %+v", st)
	}
	if p.largest != memMTU {
		t.Errorf("packets of %d bytes", p.largest)
	}
	p.close()
}
