package wire

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// inside is a packet of a bundle.
type inside struct {
	Header
	token   uint32
	payload []byte
}

// bundle builds a bundle that is not checksummed. Sessions differ where their numbers do.
func bundle(list ...inside) []byte {
	b := make([]byte, BundleHeaderSize)
	for i, x := range list {
		another := i > 0 && x.Session != list[i-1].Session
		var head [MaxRecordHead]byte
		x.Header = x.as()
		n := PutRecord(head[:], &x.Header, len(x.payload), another, x.token)
		b = append(append(b, head[:n]...), x.payload...)
	}
	PutBundle(b, list[0].as().Version, len(list), len(b)-BundleHeaderSize, list[0].Session,
		list[0].token)
	return b
}

// open reads all packets of a bundle, and checks that those that say so change the session.
func open(t *testing.T, b *Bundle) (list []inside) {
	t.Helper()
	session, token, at := b.session, b.Token(), BundleHeaderSize
	h := Header{Type: 9, ReqType: 9, Hold: 9, Flags: 9, PktNum: 9, MsgSize: 9, Session: 9, ReqNum: 9}
	for payload, ok := b.Next(&h); ok; payload, ok = b.Next(&h) {
		if !b.Another() && (h.Session != session || b.Token() != token) {
			t.Fatalf("packet %d: session %d, token %#x, were %d, %#x", len(list), h.Session,
				b.Token(), session, token)
		}
		if cap(payload) != len(payload) {
			t.Fatalf("packet %d: room for %d bytes behind the payload", len(list), cap(payload))
		}
		at += headSize(b.records[at-BundleHeaderSize]) + len(payload)
		if b.Offset() != at {
			t.Fatalf("packet %d ends at %d, not %d", len(list), b.Offset(), at)
		}
		session, token = h.Session, b.Token()
		list = append(list, inside{h, token, payload})
	}
	return list
}

// mustOpen reads all packets of a datagram that is a sound bundle.
func mustOpen(t *testing.T, pkt []byte) []inside {
	t.Helper()
	var b Bundle
	if err := b.Parse(pkt); err != nil {
		t.Fatalf("%v: % x", err, pkt)
	}
	return open(t, &b)
}

// same reports whether both lists have the same packets.
func same(a, b []inside) bool {
	return slices.EqualFunc(a, b, func(x, y inside) bool {
		return x.as() == y.as() && x.token == y.token && bytes.Equal(x.payload, y.payload)
	})
}

// randomInside returns n packets of a few sessions that a bundle has room for.
func randomInside(r *rand.Rand, n int) (list []inside) {
	for len(list) < n {
		h, payload := randomHeader(r)
		if h.Type == TypeMgmt {
			continue
		}
		payload = min(payload, 200)
		if h.Session = 5; r.IntN(4) == 0 {
			h.Session += r.Uint32N(3)
		}
		if r.IntN(2) == 0 && h.Type != TypeErr {
			h.Flags, h.PktNum, h.MsgSize = 0, 0, uint32(payload)
		}
		if h.Type == TypeErr {
			h.MsgSize = uint32(payload)
		}
		x := inside{h, h.Session * 3, make([]byte, payload)}
		for i := range x.payload {
			x.payload[i] = byte(r.Uint32())
		}
		list = append(list, x)
	}
	return list
}

// TestBundleRoundTrip: what PutBundle and PutRecord write, Parse and Next read, for any packets.
func TestBundleRoundTrip(t *testing.T) { bothVersions(t, testBundleRoundTrip) }

func testBundleRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 3000 {
		list := randomInside(r, 1+r.IntN(20))
		if i == 0 {
			list = randomInside(r, MaxBundled)
		}
		if pkt := bundle(list...); !same(mustOpen(t, pkt), list) {
			t.Fatalf("got %+v\nwant %+v", mustOpen(t, pkt), list)
		}
	}
}

// TestBundleLimits: as many packets, and as many bytes, as a bundle can have.
func TestBundleLimits(t *testing.T) { bothVersions(t, testBundleLimits) }

func testBundleLimits(t *testing.T) {
	ack := inside{Header: Header{Type: TypeAck, Session: NoSession - 1, ReqNum: maxReqNum()}}
	list := slices.Repeat([]inside{ack}, MaxBundled)
	if pkt := bundle(list...); len(pkt) != 16+255*12 || !same(mustOpen(t, pkt), list) {
		t.Errorf("%d bytes", len(pkt))
	}
	one := inside{Header: Header{Type: TypeReq, Hold: 0xFFFF, ReqType: MaxReqType,
		MsgSize: MaxContent - 12}, payload: make([]byte, MaxContent-12)}
	if pkt := bundle(one); len(pkt) != 16+MaxContent || !same(mustOpen(t, pkt), []inside{one}) {
		t.Errorf("%d bytes", len(pkt))
	}
	one.Flags, one.PktNum, one.MsgSize = FlagQuiet|MaxCut.Flags(), maxPackets()-1, MaxMsgSize
	one.payload = one.payload[:MaxContent-18]
	if pkt := bundle(one); len(pkt) != 16+MaxContent || !same(mustOpen(t, pkt), []inside{one}) {
		t.Errorf("%d bytes", len(pkt))
	}
}

// TestBundleHandWritten compares with bytes that were laid out by hand from doc.go.
func TestBundleHandWritten(t *testing.T) {
	spoken = OldVersion
	defer func() { spoken = Version }()
	got := bundle(
		inside{Header{Type: TypeReq, ReqType: 0x2A, Hold: 0x1234, MsgSize: 2, Session: 0x112233,
			ReqNum: 0x0A0B0C0D0E0F}, 0x55667788, []byte("ab")},
		inside{Header{Type: TypeCR, ReqType: 1, Hold: 2, Flags: FlagCE | Cut(2).Flags(),
			PktNum: 0xBEEF, MsgSize: 0x0ABCDEF, Session: 0x112233, ReqNum: 3}, 0x55667788, nil},
		inside{Header{Type: TypeAck, Session: 4, ReqNum: 5}, 6, nil},
		inside{Header{Type: TypeResp, MsgSize: 7, Session: 8, ReqNum: 9}, 10, []byte("c")},
	)
	want := "2a" + "04" + "4f00" + "00000000" + "33221100" + "88776655" +
		"20" + "2a" + "3412" + "0200" + "0f0e0d0c0b0a" + "6162" +
		"02" + "01" + "0200" + "0000" + "030000000000" + "efcdab90" + "efbe" +
		"39" + "00" + "0000" + "0000" + "050000000000" + "04000000" + "06000000" +
		"13" + "00" + "0000" + "0100" + "090000000000" + "08000000" + "0a000000" +
		"07000000" + "0000" + "63"
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
}

// TestRecordSize: RecordSize says what PutRecord writes, which fits exactly, and touches nothing
// behind it. Only a packet number 0 without flags that has its whole message is short.
func TestRecordSize(t *testing.T) {
	for _, x := range []struct {
		h       Header
		another bool
		want    int
	}{
		{Header{Type: TypeReq, MsgSize: 9}, false, 12},
		{Header{Type: TypeReq, MsgSize: 9}, true, 20},
		{Header{Type: TypeReq, MsgSize: 10}, false, 18},
		{Header{Type: TypeReq, MsgSize: 9, PktNum: 1}, false, 18},
		{Header{Type: TypeReq, MsgSize: 9, Flags: FlagQuiet}, false, 18},
		{Header{Type: TypeReq, MsgSize: 10, Flags: FlagQuiet, PktNum: 1}, true, MaxRecordHead},
	} {
		if got := RecordSize(&x.h, 9, x.another); got != x.want+9 {
			t.Errorf("%+v, another %v: %d bytes, want %d", x.h, x.another, got, x.want+9)
		}
		b := bytes.Repeat([]byte{0xEE}, 40)
		if got := PutRecord(b[:x.want:x.want], &x.h, 9, x.another, 7); got != x.want {
			t.Errorf("%+v, another %v: wrote %d bytes, want %d", x.h, x.another, got, x.want)
		}
		clean := make([]byte, 40)
		PutRecord(clean, &x.h, 9, x.another, 7)
		if !bytes.Equal(b[:x.want], clean[:x.want]) || bytes.Trim(b[x.want:], "\xEE") != nil {
			t.Errorf("%+v, another %v: wrote % x", x.h, x.another, b)
		}
	}
}

// TestPutWhole: PutWhole and PutAnother write the same as PutRecord, and nothing behind it.
func TestPutWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 1000 {
		size, another, token := r.IntN(1<<16), r.IntN(2) == 0, r.Uint32()
		h := Header{
			Type: Type(r.IntN(numTypes)), ReqType: uint8(r.Uint32()), Hold: uint16(r.Uint32()),
			Session: r.Uint32(), ReqNum: r.Uint64() & MaxReqNum, MsgSize: uint32(size),
		}
		want, got := bytes.Repeat([]byte{0xEE}, 40), bytes.Repeat([]byte{0xEE}, 40)
		n := PutRecord(want, &h, size, another, token)
		m := PutWhole(got, h.Type, h.ReqType, h.Hold, h.ReqNum, size)
		if another {
			m += PutAnother(got, h.Session, token)
		}
		if n != m || !bytes.Equal(got, want) {
			t.Fatalf("%+v, %d bytes, another %v:\n% x\n% x", h, size, another, got[:m], want[:n])
		}
	}
}

// TestRecordFieldLimits: a field that is wider than its place spills into no other.
func TestRecordFieldLimits(t *testing.T) { bothVersions(t, testRecordFieldLimits) }

func testRecordFieldLimits(t *testing.T) {
	zero := Header{Type: TypeResp}
	for name, h := range map[string]Header{
		"type":    {Type: TypeResp | 0xF0},
		"flags":   {Type: TypeResp, Flags: 0xF0},
		"msgsize": {Type: TypeResp, MsgSize: MaxMsgSize + 1},
	} {
		list := mustOpen(t, bundle(inside{Header: h}))
		if len(list) != 1 || list[0].Header != zero.as() {
			t.Errorf("%s: %+v", name, list)
		}
	}
	b := make([]byte, BundleHeaderSize)
	PutBundle(b, Version, 1<<8|1, 1<<16|2, 3, 4)
	if want := "3a010200000000000300000004000000"; hex.EncodeToString(b) != want {
		t.Errorf("got %x, want %s", b, want)
	}
}

// TestPutBundleOverwrites: nothing is left of what was there, nothing behind it is touched.
func TestPutBundleOverwrites(t *testing.T) {
	b := bytes.Repeat([]byte{0xFF}, BundleHeaderSize+8)
	PutBundle(b, Version, 0, 0, 0, 0)
	want := "3a" + strings.Repeat("00", 15) + strings.Repeat("ff", 8)
	if hex.EncodeToString(b) != want {
		t.Errorf("got %x", b)
	}
}

// TestBundlePadding: what stands behind the content is skipped, and is no part of a payload.
func TestBundlePadding(t *testing.T) {
	list := []inside{{Header: Header{Type: TypeReq, MsgSize: 2, Session: 3}, payload: []byte("ab")}}
	pkt := bundle(list...)
	for n := range 30 {
		if n > 0 {
			pkt = append(pkt, byte(0xFF-n))
		}
		if got := mustOpen(t, pkt); !same(got, list) {
			t.Errorf("%d bytes of padding: %+v", n, got)
		}
	}
}

// TestHoldOfRecord: Hold and SetHold work on a record, even the shortest at the end of a bundle,
// and change nothing else.
func TestHoldOfRecord(t *testing.T) {
	cr := inside{Header: Header{Type: TypeCR, Hold: 7, PktNum: 1, Session: 3}, token: 1}
	ack := inside{Header: Header{Type: TypeAck, Hold: 0x1234, Session: 3}, token: 1}
	pkt := bundle(cr, ack)
	first, last := pkt[16:], pkt[len(pkt)-12:]
	if Hold(first) != 7 || Hold(last) != 0x1234 {
		t.Errorf("hold fields %#x, %#x", Hold(first), Hold(last))
	}
	SetHold(first, 0xBEEF)
	SetHold(last, 0xCAFE)
	cr.Hold, ack.Hold = 0xBEEF, 0xCAFE
	if want := bundle(cr, ack); !bytes.Equal(pkt, want) {
		t.Errorf("got % x, want % x", pkt, want)
	}
}

// TestBundleChecksum: token and checksum share their field as in a lone packet, in bundles of all
// sizes; one wrong bit anywhere, in the padding too, is noticed.
func TestBundleChecksum(t *testing.T) {
	const token = 0xDEADBEEF
	req := inside{Header: Header{Type: TypeReq, MsgSize: 3, Session: 3}, payload: []byte("abc")}
	ack := inside{Header: Header{Type: TypeAck, Session: 4}, token: 5}
	for _, pkt := range [][]byte{
		bundle(ack), bundle(req, ack, ack), append(bundle(req, ack), make([]byte, 20)...),
	} {
		was := bytes.Clone(pkt)
		SetToken(pkt, token^Checksum(pkt, nil))
		if !bytes.Equal(pkt[:12], was[:12]) || !bytes.Equal(pkt[16:], was[16:]) {
			t.Errorf("% x became % x", was, pkt)
		}
		rest := slices.Concat(pkt[:12], pkt[16:])
		if Token(pkt) != token^slowCRC(rest) || Token(pkt)^Checksum(pkt[:24], pkt[24:]) != token {
			t.Errorf("token field %#x, want %#x", Token(pkt), token^slowCRC(rest))
		}
		var b Bundle
		n, ok := SessionOf(pkt)
		if b.Parse(pkt) != nil || !ok || n != b.session || b.Token() != Token(pkt) {
			t.Errorf("session %d, token %#x", n, b.Token())
		}
		for bit := range len(pkt) * 8 {
			pkt[bit/8] ^= 1 << (bit % 8)
			if Token(pkt)^Checksum(pkt, nil) == token {
				t.Errorf("%d bytes: flip of bit %d not noticed", len(pkt), bit)
			}
			pkt[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestIsBundle tries all first bytes, and no byte at all.
func TestIsBundle(t *testing.T) {
	for i := range 256 {
		if IsBundle([]byte{byte(i)}) != (i == 0x2A || i == 0x3A) {
			t.Errorf("first byte %#x", i)
		}
	}
	if IsBundle(nil) {
		t.Error("an empty datagram")
	}
}

func TestBundleNoAllocations(t *testing.T) {
	pkt := bundle(
		inside{Header: Header{Type: TypeReq, MsgSize: 3, Session: 3}, payload: []byte("abc")},
		inside{Header: Header{Type: TypeCR, PktNum: 3, Session: 4}, token: 5})
	count, buf := 0, make([]byte, MaxRecordHead)
	if n := testing.AllocsPerRun(1000, func() {
		var b Bundle
		if b.Parse(pkt[:20]) == nil || b.Parse(pkt) != nil {
			t.Error("wrong verdict")
		}
		var h Header
		for _, ok := b.Next(&h); ok; _, ok = b.Next(&h) {
			count++
		}
		PutBundle(buf, Version, 2, len(pkt)-16, 3, 0)
		sink += uint32(PutRecord(buf, &h, 3, true, 0))
	}); n != 0 || count != 2*1001 {
		t.Errorf("%v allocations, %d packets", n, count)
	}
}

// TestBundleChangesBetween: a sender that shares the memory changes it after the check. Any
// packet that Next gives lies in the datagram.
func TestBundleChangesBetween(t *testing.T) {
	h := Header{Type: TypeReq, MsgSize: 9, Session: 1}
	pkt := make([]byte, BundleHeaderSize, 200)
	for i := range 3 {
		rec := make([]byte, MaxRecordHead)
		h.PktNum = uint32(i)
		n := PutRecord(rec, &h, 9, i > 0, 5)
		pkt = append(append(pkt, rec[:n]...), "123456789"...)
	}
	PutBundle(pkt, Version, 3, len(pkt)-BundleHeaderSize, 1, 5)
	for at := BundleHeaderSize; at < len(pkt); at++ {
		for _, v := range []byte{0, 0x10, 0x20, 0x30, 0x80, 0xff} {
			p := append(make([]byte, 0, len(pkt)), pkt...)
			var b Bundle
			if err := b.Parse(p); err != nil {
				t.Fatal(err)
			}
			p[at] = v
			bytes, n := 0, 0
			for {
				data, ok := b.Next(&h)
				if !ok {
					break
				}
				bytes, n = bytes+len(data), n+1
			}
			if bytes > len(pkt) || n > 10 {
				t.Errorf("byte %d is %#x: %d packets of %d bytes", at, v, n, bytes)
			}
		}
	}
}
