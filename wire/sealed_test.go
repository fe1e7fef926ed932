package wire

import (
	"bytes"
	"testing"
)

// TestSealedFields: counter and field come back from the clear part, without the key phase, at the
// ends of their ranges; nothing in front changes, and nothing else is looked at.
func TestSealedFields(t *testing.T) {
	for _, counter := range []uint64{0, 1, 0xFF, 1 << 32, 1<<56 - 1} {
		for _, field := range []uint32{0, 1, NoSession, FirstOf(MaxLoop), 1<<31 - 1} {
			for _, phase := range []uint32{0, KeyPhase} {
				all := AppendSealed([]byte("before"), counter, field|phase)
				pkt := all[len("before"):]
				if string(all[:6]) != "before" || len(pkt) != SealedHead || !IsSealed(pkt) {
					t.Fatalf("% x", all)
				}
				if n, f := SealedCounter(pkt), SealedField(pkt); n != counter || f != field {
					t.Errorf("%#x and %#x became %#x and %#x", counter, field|phase, n, f)
				}
				if pkt[11]>>7 != byte(phase>>31) || LoopOf(SealedField(pkt)) != pkt[11]&MaxLoop {
					t.Errorf("%#x: byte 11 is %#x", field|phase, pkt[11])
				}
			}
		}
	}
}

// TestIsSealed: the first byte says it, of this version alone, if the clear part is whole; Parse
// refuses such a datagram as one of another type, so nothing of it is ever taken for a packet.
func TestIsSealed(t *testing.T) {
	pkt := AppendSealed(nil, 7, 9)
	for n := range pkt {
		if IsSealed(pkt[:n]) {
			t.Errorf("%d bytes are enough", n)
		}
	}
	for first := range 256 {
		b := append(bytes.Clone(pkt), make([]byte, 100)...)
		b[0] = byte(first)
		if got := IsSealed(b); got != (first == 0x3B) {
			t.Errorf("first byte %#x: %v", first, got)
		}
		if IsSealed(b) && (new(Header).Parse(b) != ErrType || IsBundle(b)) {
			t.Error("it is a packet in the clear, too")
		}
		if _, _, asks := AsksVersion(b); IsSealed(b) && asks {
			t.Error("it draws a refusal of its version")
		}
	}
}

// FuzzSealed: whatever is a sealed datagram is written back from its fields.
func FuzzSealed(f *testing.F) {
	for _, g := range goldenPackets() {
		f.Add(g.bytes)
	}
	f.Add([]byte{0x3B})
	f.Fuzz(func(t *testing.T, pkt []byte) {
		if !IsSealed(pkt) {
			return
		}
		field := SealedField(pkt) | uint32(pkt[11]>>7)<<31
		if b := AppendSealed(nil, SealedCounter(pkt), field); !bytes.Equal(b, pkt[:SealedHead]) {
			t.Fatalf("% x was written back as % x", pkt[:SealedHead], b)
		}
	})
}
