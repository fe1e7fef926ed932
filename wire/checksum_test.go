package wire

import (
	"math/rand/v2"
	"testing"
)

// sealed returns a checksummed request with the given payload.
func sealed(token uint32, payload []byte) []byte {
	h := Header{Type: TypeReq, ReqType: 1, MsgSize: uint32(len(payload)), Session: 3, ReqNum: 7}
	pkt := packet(h, 0, payload)
	SetToken(pkt, token^Checksum(pkt, nil))
	return pkt
}

// TestBitFlips flips every single bit of a sealed packet, header, token and payload,
// and every pair of neighbouring bits: the receiver must miss none.
func TestBitFlips(t *testing.T) {
	const token = 0xDEADBEEF
	payload := make([]byte, 100)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	for _, pkt := range [][]byte{
		sealed(token, nil),
		sealed(token, payload[:1]),
		sealed(token, payload),
		mgmt(OpConnect, NoSession, token, &testConnect, 40),
	} {
		if OpenMgmt(pkt) != token {
			t.Fatal("an undamaged packet was refused")
		}
		flip := func(bit int) { pkt[bit/8] ^= 1 << (bit % 8) }
		bits := len(pkt) * 8
		for bit := range bits {
			flip(bit)
			if OpenMgmt(pkt) == token {
				t.Errorf("%d bytes: flip of bit %d not noticed", len(pkt), bit)
			}
			if bit+1 < bits {
				flip(bit + 1)
				if OpenMgmt(pkt) == token {
					t.Errorf("%d bytes: flip of bits %d and %d not noticed", len(pkt), bit, bit+1)
				}
				flip(bit + 1)
			}
			flip(bit)
		}
	}
}

// TestCutAndGrown: a packet that lost its end, or got zeros appended, is noticed.
func TestCutAndGrown(t *testing.T) {
	const token = 0xDEADBEEF
	pkt := sealed(token, make([]byte, 64))
	for n := HeaderSize; n < len(pkt); n++ {
		if OpenMgmt(pkt[:n]) == token {
			t.Errorf("cut to %d bytes: not noticed", n)
		}
	}
	for range 64 {
		pkt = append(pkt, 0)
		if OpenMgmt(pkt) == token {
			t.Errorf("grown to %d bytes: not noticed", len(pkt))
		}
	}
}

// TestChecksumParts: the sum of a packet in two parts is that of the whole, wherever
// behind the header it is cut.
func TestChecksumParts(t *testing.T) {
	pkt := sealed(1, []byte("the quick brown fox jumps over the lazy dog"))
	want := Checksum(pkt, nil)
	for cut := HeaderSize; cut <= len(pkt); cut++ {
		if got := Checksum(pkt[:cut], pkt[cut:]); got != want {
			t.Errorf("cut at %d: %#x, want %#x", cut, got, want)
		}
	}
}
