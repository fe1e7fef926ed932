package wire

import (
	"strconv"
	"testing"
)

// sink keeps the compiler from dropping what a benchmark computes.
var sink uint32

func TestNoAllocations(t *testing.T) {
	h := good(TypeReq)
	pkt := packet(h, 1, make([]byte, 100))
	check := func(name string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	check("Put", func() { h.Put(pkt, 1) })
	check("Parse", func() {
		var got Header
		if got.Parse(pkt) != nil {
			t.Error("refused")
		}
	})
	check("Parse of a bad packet", func() {
		var got Header
		if got.Parse(pkt[:30]) != nil || got.Parse(pkt[:3]) == nil {
			t.Error("wrong verdict")
		}
	})
	check("Checksum", func() { sink += Checksum(pkt[:HeaderSize], pkt[HeaderSize:]) })
	check("SetToken", func() { SetToken(pkt, Token(pkt)+1) })
	connect, accept := testConnect, Accept{Offer: testOffer}
	big := mgmt(OpConnect, 1, 1, &connect, 0)
	check("Connect", func() {
		connect.Put(big[HeaderSize:])
		connect.Parse(big[HeaderSize:])
	})
	check("Accept", func() {
		accept.Put(big[HeaderSize:])
		accept.Parse(big[HeaderSize:])
	})
	check("SealMgmt and OpenMgmt", func() {
		SealMgmt(big, 9)
		sink += OpenMgmt(big)
	})
}

func BenchmarkPut(b *testing.B) {
	h := good(TypeReq)
	pkt := make([]byte, HeaderSize)
	for b.Loop() {
		h.ReqNum++
		h.Put(pkt, 1)
	}
}

func BenchmarkParse(b *testing.B) {
	pkt := packet(good(TypeReq), 1, make([]byte, 100))
	var h Header
	for b.Loop() {
		if err := h.Parse(pkt); err != nil {
			b.Fatal(err)
		}
	}
	sink += h.MsgSize
}

func BenchmarkChecksum(b *testing.B) {
	for _, size := range []int{32, 1400} {
		pkt := packet(good(TypeReq), 1, make([]byte, size))
		for _, split := range []bool{false, true} {
			head, data, name := pkt, []byte(nil), strconv.Itoa(size)+"B/whole"
			if split {
				head, data, name = pkt[:HeaderSize], pkt[HeaderSize:], strconv.Itoa(size)+"B/split"
			}
			b.Run(name, func(b *testing.B) {
				b.SetBytes(int64(len(pkt)))
				for b.Loop() {
					sink += Checksum(head, data)
				}
			})
		}
	}
}
