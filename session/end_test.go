package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

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
