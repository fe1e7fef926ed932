package layer

import (
	"testing"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/wire"
)

// TestLoop: the loop of a session, and the one that a packet without a session asks for.
func TestLoop(t *testing.T) {
	mgmt := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing), MsgSize: wire.AliveSize}
	data := wire.Header{Type: wire.TypeReq}
	for field, want := range map[uint32]uint8{
		wire.FirstOf(0) + 9: 0, wire.FirstOf(3) + 9: 3, wire.FirstOf(wire.MaxLoop): wire.MaxLoop,
		wire.NoSession: 0, wire.FirstOf(5) | wire.NoSession: 5,
		wire.KeyPhase | wire.FirstOf(5) | wire.NoSession: 5,
	} {
		h, size := mgmt, wire.HeaderSize+wire.AliveSize
		if field&wire.NoSession != wire.NoSession {
			h, size = data, wire.HeaderSize
		}
		pkt := make([]byte, size)
		h.Session = field
		h.Put(pkt, 0)
		var e ERPC
		if err := e.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != nil || e.Loop() != want {
			t.Errorf("%#x: loop %d, %v, want %d", field, e.Loop(), err, want)
		}
	}
	inside := ERPC{Bundled: true, Header: wire.Header{Session: wire.FirstOf(7) + 1}}
	if inside.Loop() != 7 {
		t.Errorf("in a bundle: loop %d", inside.Loop())
	}
}
