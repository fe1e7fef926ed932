package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// TestVerify: only packets of the peer for the session pass, and with checksums only whole ones.
func TestVerify(t *testing.T) {
	other := packet.Addr{Port: 99}
	for _, checksum := range []bool{false, true} {
		e, out := clientEnd(), NewOut(4, false)
		e.Checksum = checksum
		e.sendControl(out, &wire.Header{Type: wire.TypeRFR, ReqNum: 8, PktNum: 1})
		pkt := flatten(out.Tx[0]).raw
		peer := End{Peer: clientHost, Local: serverSession, LocalToken: serverToken}
		peer.Checksum = checksum
		if !peer.Names(peer.TokenIn(pkt), &clientHost, 0) {
			t.Errorf("checksum %v: a good packet is refused", checksum)
		}
		if peer.Names(peer.TokenIn(pkt), &other, 0) {
			t.Errorf("checksum %v: a packet of another address passes", checksum)
		}
		peer.LocalToken ^= 1 << 31
		if peer.Names(peer.TokenIn(pkt), &clientHost, 0) {
			t.Errorf("checksum %v: a packet for another session passes", checksum)
		}
		peer.LocalToken ^= 1 << 31
		pkt[len(pkt)-1] ^= 1
		if peer.Names(peer.TokenIn(pkt), &clientHost, 0) == checksum {
			t.Errorf("checksum %v: a damaged packet passes: %v", checksum, !checksum)
		}
	}
	e := clientEnd()
	if !e.Names(clientToken, &serverHost, 0) {
		t.Error("a management packet of the peer is refused")
	}
	if e.Names(serverToken, &serverHost, 0) || e.Names(clientToken, &other, 0) {
		t.Error("a management packet of a stranger passes")
	}
}

// TestLowerMTU: packets become smaller, never larger, and only before the first request.
func TestLowerMTU(t *testing.T) {
	const before = 1400 // data bytes in a packet
	for _, c := range []struct {
		mtu  uint32
		want int
	}{
		{0, before}, {1<<32 - 1, before}, {MinMTU - 1, before}, {MinMTU, MinMTU - wire.HeaderSize},
		{1232, 1232 - wire.HeaderSize}, {before + wire.HeaderSize - 1, before - 1},
		{before + wire.HeaderSize, before}, {before + wire.HeaderSize + 1, before}, {9000, before},
	} {
		for _, used := range []bool{false, true} {
			p := rigParams
			p.PerPacket = before
			r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
			want := c.want
			if used { // by a request that is not complete, in the last slot
				h := wire.Header{Type: wire.TypeReq, ReqType: 1, MsgSize: 5000, ReqNum: 15}
				r.sv.OnReq(&h, make([]byte, before), r.arrival(), r.sout)
				r.takeServer()
				want = before
			}
			l := NewLink(before + wire.HeaderSize)
			r.sv.SetLink(&l)
			if r.sv.LowerMTU(c.mtu); r.sv.PerPacket != want || l.limit != want+wire.HeaderSize {
				t.Errorf("MTU %d, used %v: %d bytes, bundles of %d, want %d", c.mtu, used,
					r.sv.PerPacket, l.limit, want)
			}
			r.noLeak()
		}
	}
}

// TestOffer: what was agreed is the offer of which it was made.
func TestOffer(t *testing.T) {
	for _, o := range []wire.Offer{
		{Credits: 1, Slots: 1, MTU: MinMTU, MaxMessage: 0},
		{Credits: 7, Slots: 16, MTU: 1452, MaxMessage: 12345, Features: wire.FeatureChecksum},
		{Credits: 7, Slots: 16, MTU: 1452, MaxMessage: 12345, Features: wire.FeatureBundle},
		{Credits: MaxCredits, Slots: MaxSlots, MTU: 1<<16 + wire.HeaderSize, MaxMessage: wire.MaxMsgSize},
	} {
		p, err := ParamsOf(o, wire.Version)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Offer(); got != o {
			t.Errorf("offer %+v, made of %+v", got, o)
		}
		if again, err := ParamsOf(p.Offer(), p.Version); err != nil || again != p {
			t.Errorf("params %+v, %v, want %+v", again, err, p)
		}
	}
}
