package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// twoRecords returns a bundle of 16+14+26 bytes: a request of two bytes, and at offset 30 a CR of
// another session, which ends the bundle.
func twoRecords() []byte {
	return bundle(
		inside{Header{Type: TypeReq, ReqType: 1, MsgSize: 2, Session: 3}, 4, []byte("ab")},
		inside{Header{Type: TypeCR, ReqType: 1, PktNum: 1, Session: 5}, 6, nil})
}

// inOld returns the error of what only OldVersion refuses, inNew of what only Version does.
func inOld(err error) error {
	if spoken == OldVersion {
		return err
	}
	return nil
}

func inNew(err error) error {
	if spoken == OldVersion {
		return nil
	}
	return err
}

// TestBundleRules breaks one rule at a time and wants that rule's own error.
func TestBundleRules(t *testing.T) { bothVersions(t, testBundleRules) }

func testBundleRules(t *testing.T) {
	const content, second = 40, 30
	set := func(at int, b ...byte) func([]byte) []byte {
		return func(pkt []byte) []byte { return slices.Replace(pkt, at, at+len(b), b...) }
	}
	tests := []struct {
		name   string
		change func(pkt []byte) []byte
		want   error
	}{
		{"sound", set(0), nil},
		{"version 1", set(0, 0x1A), ErrVersion},
		{"version 4", set(0, 0x4A), ErrVersion},
		{"a lone type", set(0, spoken<<4), ErrType},
		{"type 11", set(0, spoken<<4|11), ErrType},
		{"no packet", set(1, 0), ErrBundle},
		{"fewer packets", set(1, 1), ErrBundle},
		{"more packets", set(1, 3), ErrBundle},
		{"most packets", set(1, 255), ErrBundle},
		{"less content", set(2, content-1), ErrBundle},
		{"no content", set(2, 0), ErrBundle},
		{"content without the second", set(2, content-26), ErrBundle},
		{"content with half of the second", set(2, content-20), ErrBundle},
		{"content beyond the datagram", set(2, content+1), ErrBundle},
		{"largest content", set(2, 255, 255), ErrBundle},
		{"reserved word", set(4, 1), ErrFlags},
		{"reserved word, last bit", set(7, 0x80), ErrFlags},
		{"last session", set(8, 0xFE, 0xFF, 0xFF), nil},
		{"no session", set(8, 0xFF, 0xFF, 0xFF), ErrSession},
		{"loop 1", set(11, 1), nil},
		{"loop 127", set(11, 0x7F), nil},
		{"key phase", set(11, 0x80), ErrSession},
		{"loop 127, no session", set(8, 0xFF, 0xFF, 0xFF, 0x7F), ErrSession},
		{"upper bits and no session", set(8, 0xFF, 0xFF, 0xFF, 0xFF), ErrSession},
		{"any token", set(12, 1, 2, 3, 4), nil},

		{"first: another session", set(16, 0x30), ErrFlags},
		{"first: reserved bit 6", set(16, 0x60), ErrFlags},
		{"first: reserved bit 7", set(16, 0xA0), ErrFlags},
		{"second: reserved bit 6", set(second, 0x52), ErrFlags},
		{"second: reserved bit 7", set(second, 0x92), ErrFlags},
		{"first: response", set(16, 0x23), nil},
		{"first: RFR with payload", set(16, 0x21), ErrSize},
		{"first: management", set(16, 0x24, 7), ErrType},
		{"first: short error", set(16, 0x25), ErrSize},
		{"first: a bundle", set(16, 0x2A), ErrType},
		{"first: type 15", set(16, 0x2F), ErrType},
		{"second: management", set(second, 0x14, 7), ErrType},
		{"second: a bundle", set(second, 0x1A), ErrType},
		{"first: request type 254", set(17, 254), nil},
		{"first: request type 255", set(17, 255), ErrReqType},
		{"second: request type 255", set(second+1, 255), inOld(ErrReqType)},
		{"first: all of the request number", set(22, 255, 255, 255, 255, 255, 0x0F), nil},
		{"first: upper bits of the packet number", set(27, 0x10), inNew(ErrFlags)},
		{"first: last upper bit", set(27, 0x80), inNew(ErrFlags)},
		{"second: upper bits of the packet number", set(second+11, 0xF0), nil},
		{"first: one byte less", set(20, 1), ErrFlags}, // the second begins with the payload's "b"
		{"first: to the end", set(20, 28), ErrBundle},
		{"first: beyond the end", set(20, 29), ErrBundle},
		{"first: far beyond the end", set(20, 255, 255), ErrBundle},
		{"second: a byte beyond the end", set(second+4, 1), ErrBundle},
		{"second: head beyond the end, whole", set(1, 3), ErrBundle},
		{"second: without its msgsize", set(second, 0x32), ErrBundle},
		{"second: without its session", set(second, 0x02), ErrBundle},
		{"second: last session", set(second+12, 0xFE, 0xFF, 0xFF), nil},
		{"second: no session", set(second+12, 0xFF, 0xFF, 0xFF), ErrSession},
		{"second: loop 1", set(second+15, 1), nil},
		{"second: loop 127", set(second+15, 0x7F), nil},
		{"second: key phase", set(second+15, 0x80), ErrSession},
		{"second: loop 127, no session", set(second+12, 0xFF, 0xFF, 0xFF, 0x7F), ErrSession},
		{"second: CE and gap", set(second+23, 0x30), nil},
		{"second: an ACK with flags", set(second, 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0,
			6, 0, 0, 0, 0, 0, 0, 0x10), ErrFlags},
		{"second: a WAIT with a size", set(second, 0x16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0,
			6, 0, 0, 0, 1, 0, 0, 0), ErrSize},
		{"cut", func(pkt []byte) []byte { return pkt[:len(pkt)-1] }, ErrBundle},
		{"padded", func(pkt []byte) []byte { return append(pkt, 1) }, nil},
		{"padded, and more packets", func(pkt []byte) []byte {
			pkt[1] = 3
			return append(pkt, make([]byte, 100)...)
		}, ErrBundle},
		{"padding as content", func(pkt []byte) []byte {
			pkt[2]++
			return append(pkt, 0)
		}, ErrBundle},
	}
	for _, tt := range tests {
		pkt := tt.change(twoRecords())
		b := Bundle{records: twoRecords()[16:]}
		if err := b.Parse(slices.Clip(pkt)); err != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if got := open(t, &b); (len(got) == 2) != (tt.want == nil) || len(got) == 1 {
			t.Errorf("%s: %d packets", tt.name, len(got))
		}
	}
}

// TestBundleCount: the count is exact, whatever the records are.
func TestBundleCount(t *testing.T) {
	req := inside{Header: Header{Type: TypeReq, MsgSize: 1}, payload: []byte("a")}
	empty := inside{Header: Header{Type: TypeResp}}
	ack := inside{Header: Header{Type: TypeAck}}
	for i, list := range [][]inside{
		{req, req, req}, {empty, empty, empty}, {ack, ack, ack}, {ack, req, req}, {req, ack, req},
		{req, req, ack}, {ack, empty, ack},
	} {
		pkt := bundle(list...)
		for n := range 256 {
			pkt[1] = byte(n)
			want := ErrBundle
			if n == len(list) {
				want = nil
			}
			if err := new(Bundle).Parse(pkt); err != want {
				t.Errorf("bundle %d says %d packets: %v", i, n, err)
			}
		}
	}
}

// TestBundleShort gives Parse every length below that of a sound bundle, also none at all.
func TestBundleShort(t *testing.T) {
	pkt := twoRecords()
	for n := range pkt {
		want := ErrBundle
		if n < BundleHeaderSize {
			want = ErrShort
		}
		if err := new(Bundle).Parse(pkt[:n:n]); err != want {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	if err := new(Bundle).Parse(nil); err != ErrShort {
		t.Errorf("nil: got %v", err)
	}
	var h Header
	if _, ok := new(Bundle).Next(&h); ok {
		t.Error("the zero value has a packet")
	}
}

// TestBundleIsNoPacket: a lone packet is no bundle, and a bundle no lone packet, of any size.
func TestBundleIsNoPacket(t *testing.T) {
	for size := HeaderSize; size < 100; size++ {
		pkt := make([]byte, size)
		copy(pkt, twoRecords())
		if err := new(Header).Parse(pkt); err != ErrType {
			t.Errorf("%d bytes of a bundle: %v", size, err)
		}
	}
	for _, g := range goldenPackets() {
		err := new(Bundle).Parse(g.bytes)
		if isBundle := IsBundle(g.bytes); (err == nil) != isBundle {
			t.Errorf("%s: %v", g.name, err)
		}
	}
}

// TestBundleRulesOfLone: of a packet inside Parse says the same as Header.Parse says of it alone,
// right or wrong, first or not. Only a management packet is no packet of a bundle.
func TestBundleRulesOfLone(t *testing.T) { bothVersions(t, testBundleRulesOfLone) }

func testBundleRulesOfLone(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	verdicts := map[error]int{}
	for range 20000 {
		h, payload := randomHeader(r)
		switch r.IntN(8) {
		case 0:
			h.Flags = Flags(r.UintN(16))
		case 1:
			payload = r.IntN(40)
		case 2:
			h.ReqType = 255
		case 3:
			h.Session = []uint32{NoSession, 1 << 31, FirstOf(MaxLoop), NoSession | FirstOf(9)}[r.IntN(4)]
		case 4:
			h.Type = Type(r.UintN(16))
		case 5:
			h.Flags, h.PktNum, h.MsgSize = 0, 0, uint32(payload)
		}
		pkt := packet(h, 1, make([]byte, payload))
		want := new(Header).Parse(pkt)
		if h.Type == TypeMgmt {
			want = ErrType
		}
		ack := inside{Header: Header{Type: TypeAck}}
		x := inside{h, 0x11223344, pkt[HeaderSize:]}
		alone, second := bundle(x), bundle(ack, x)
		verdicts[want]++
		for name, b := range map[string][]byte{"first": alone, "second": second} {
			if name == "first" && !IsSession(h.Session) {
				continue // a rule of the bundle's header, which is looked at before
			}
			if err := new(Bundle).Parse(b); err != want {
				t.Fatalf("%s, %+v with %d bytes: %v, want %v", name, h, payload, err, want)
			}
		}
		if want == nil {
			if got := mustOpen(t, second); !same(got[1:], []inside{x}) && h.Session != 0 {
				t.Fatalf("got %+v, want %+v", got[1], x)
			}
		}
	}
	if len(verdicts) != 6 {
		t.Errorf("not every verdict is there: %v", verdicts)
	}
}

// TestBundleLong: a record that could be whole need not say so.
func TestBundleLong(t *testing.T) { bothVersions(t, testBundleLong) }

func testBundleLong(t *testing.T) {
	pkt := make([]byte, 16, 64)
	PutBundle(pkt, spoken, 1, 20, 3, 4)
	pkt = append(pkt, 0x00, 1, 9, 0, 2, 0, 5, 0, 0, 0, 0, 0)
	pkt = binary.LittleEndian.AppendUint32(pkt, 2)
	pkt = append(pkt, 0, 0, 'a', 'b')
	want := []inside{{Header{Type: TypeReq, ReqType: 1, Hold: 9, MsgSize: 2, Session: 3, ReqNum: 5}, 4,
		[]byte("ab")}}
	if got := mustOpen(t, pkt); !same(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestParseCut: of a bundle that a capture cut, the packets that are there from end to end.
func TestParseCut(t *testing.T) { bothVersions(t, testParseCut) }

func testParseCut(t *testing.T) {
	list := []inside{
		{Header{Type: TypeReq, MsgSize: 2, Session: 3}, 4, []byte("ab")},
		{Header{Type: TypeCR, PktNum: 1, Session: 5}, 6, nil},
		{Header{Type: TypeResp, MsgSize: 3, Session: 5}, 6, []byte("abc")}}
	pkt := append(bundle(list...), "pad"...)
	ends := []int{16, 30, 56, 71}
	for n := range len(pkt) + 1 {
		var b Bundle
		err := b.ParseCut(pkt[:n:n], len(pkt))
		if n < BundleHeaderSize {
			if err != ErrShort {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		whole := 0
		for whole < len(list) && ends[whole+1] <= n {
			whole++
		}
		if got := open(t, &b); err != nil || !same(got, list[:whole]) {
			t.Errorf("%d bytes: %v, %+v", n, err, got)
		}
	}
	if err := new(Bundle).ParseCut(pkt, 70); err != ErrBundle {
		t.Errorf("a datagram that is too small: %v", err)
	}
	for at, want := range map[int]error{1: ErrBundle, 17: ErrReqType, 16: ErrType} {
		bad := slices.Clone(pkt)
		bad[at] = map[int]byte{1: 1, 17: 255, 16: 0x2A}[at] // one packet only
		if err := new(Bundle).ParseCut(bad[:40], len(bad)); err != want {
			t.Errorf("byte %d: %v, want %v", at, err, want)
		}
	}
}
