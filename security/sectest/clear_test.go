package sectest

import (
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// TestClear: what may leave depends on whether there are keys.
func TestClear(t *testing.T) {
	secret := []byte("what nobody may read")
	packet := func(typ wire.Type, op wire.Op, body []byte) []byte {
		h := wire.Header{Type: typ, ReqType: uint8(op), MsgSize: uint32(len(body))}
		pkt := make([]byte, wire.HeaderSize, 100)
		h.Put(pkt, 0)
		return append(pkt, body...)
	}
	sealed := wire.AppendSealed(nil, 1, 2)
	plain, crypto := packet(wire.TypeReq, 0, nil), packet(wire.TypeMgmt, wire.OpCrypto, nil)
	var c Clear[string]
	for i, s := range []struct {
		from, to string
		pkt      []byte
		good     bool
	}{
		{"a", "b", plain, true},
		{"a", "b", packet(wire.TypeReq, 0, secret), true},
		{"a", "b", sealed, true},
		{"a", "b", plain, false},
		{"b", "a", plain, false},
		{"b", "a", nil, false},
		{"b", "a", packet(wire.TypeMgmt, wire.OpPing, nil), false},
		{"b", "a", crypto, true},
		{"b", "a", packet(wire.TypeMgmt, wire.OpCrypto, secret), false},
		{"b", "a", append(append([]byte{}, sealed...), secret...), false},
		{"b", "a", make([]byte, wire.HeaderSize), true},
		{"a", "c", plain, true},
		{"d", "c", plain, false},
		{"c", "d", plain, true},
	} {
		c.Demand("d")
		if err := c.Left(s.from, s.to, s.pkt, secret); (err == nil) != s.good {
			t.Errorf("datagram %d: %v", i, err)
		}
	}
}
