package layer

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/wire"
)

// checkSealed compares the layer of a sealed datagram with what package wire reads, and writes it
// back.
func checkSealed(t *testing.T, p gopacket.Packet, pkt []byte) {
	t.Helper()
	s, ok := p.Layer(SealedType).(*Sealed)
	if !ok || p.ErrorLayer() != nil || p.Layer(LayerType) != nil {
		t.Fatalf("no layer, or one too many, in %v", p)
	}
	if s.Counter != wire.SealedCounter(pkt) || s.Field() != wire.SealedField(pkt) ||
		s.Index != s.Field()&wire.NoSession || s.KeyPhase != (pkt[11]>>7 != 0) ||
		!bytes.Equal(s.Contents, pkt[:wire.SealedHead]) ||
		!bytes.Equal(s.Payload, pkt[wire.SealedHead:]) {
		t.Errorf("%+v of % x", s, pkt)
	}
	if l := p.Layer(gopacket.LayerTypePayload); (l != nil) != (len(s.Payload) > 0) {
		t.Errorf("payload layer: %v", l)
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{}, s, gopacket.Payload(s.Payload))
	if err != nil || !bytes.Equal(b.Bytes(), pkt) {
		t.Errorf("written back: %v\n% x\n% x", err, b.Bytes(), pkt)
	}
}

// TestSealedLimits: a field that does not fit its place is not written; what is no sealed datagram
// is not read as one.
func TestSealedLimits(t *testing.T) {
	for _, s := range []Sealed{{Counter: 1 << 56}, {Index: 1 << 24}, {Loop: 128}} {
		if err := s.SerializeTo(gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{}); err == nil {
			t.Errorf("%+v was written", s)
		}
	}
	good := wire.AppendSealed(nil, 5, 7)
	var s Sealed
	for n := range good {
		if err := s.DecodeFromBytes(good[:n], gopacket.NilDecodeFeedback); err != wire.ErrShort {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for first := range 256 {
		pkt := append([]byte{byte(first)}, good[1:]...)
		want := wire.ErrType
		if first == int(good[0]) {
			want = nil
		}
		if err := s.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != want {
			t.Errorf("first byte %#x: %v", first, err)
		}
	}
}
