package wireshark

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/wire"
)

// randomBundle returns a bundle of up to five packets, sound or with some bits changed.
func randomBundle(rng *rand.Rand) []byte {
	b := make([]byte, wire.BundleHeaderSize)
	first, session, token, count := uint32(0), randomSession(rng), rng.Uint32(), 1+rng.IntN(5)
	firstToken, version := token, randomVersion(rng)
	for i := range count {
		another := i > 0 && rng.IntN(3) == 0
		if another {
			session, token = randomSession(rng), rng.Uint32()
		}
		if i == 0 {
			first = session
		}
		b = append(b, randomRecord(rng, version, session, another, token)...)
	}
	wire.PutBundle(b, version, count, len(b)-wire.BundleHeaderSize, first, firstToken)
	b = append(b, make([]byte, rng.IntN(3))...) // padding
	switch rng.IntN(8) {
	case 0: // one wrong bit in the header or in the first record
		bit := rng.IntN(8 * (wire.BundleHeaderSize + 12))
		if bit%8 > 3 || bit > 7 { // type and version stay: else it is no bundle
			b[bit/8] ^= 1 << (bit % 8)
		}
		b[0] = wire.First(wire.TypeBundle, version)
	case 1: // one anywhere
		bit := 8 + rng.IntN(8*(len(b)-1))
		b[bit/8] ^= 1 << (bit % 8)
	case 2:
		b = b[:1+rng.IntN(len(b)-1)]
	}
	return b
}

// bundleBits returns a bundle with each bit of the first record's first byte wrong.
func bundleBits(pkt []byte) (list [][]byte) {
	for bit := range 8 {
		bad := bytes.Clone(pkt)
		bad[wire.BundleHeaderSize] ^= 1 << bit
		list = append(list, bad)
	}
	return list
}

// randomRecord returns a record that is sound, but for its flags once in a while.
func randomRecord(
	rng *rand.Rand, version uint8, session uint32, another bool, token uint32,
) []byte {
	h := wire.Header{
		Type: randomTypes[rng.IntN(len(randomTypes))], ReqType: uint8(rng.IntN(255)), Session: session,
		Hold: uint16(rng.Uint32()), PktNum: randomPacket(rng), ReqNum: rng.Uint64N(wire.MaxReqNum),
		Flags: wire.Flags(rng.IntN(16)), Version: version,
	}
	if rng.IntN(30) > 0 {
		h.Flags &= randomFlags[h.Type]
	}
	var payload []byte
	switch h.Type {
	case wire.TypeReq, wire.TypeResp:
		payload = make([]byte, rng.IntN(20))
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		h.MsgSize = uint32(len(payload)) * (1 + rng.Uint32N(2))
	case wire.TypeRFR, wire.TypeCR:
		h.MsgSize = rng.Uint32N(9)
	case wire.TypeErr:
		payload = randomError(rng, nil)
		h.MsgSize = uint32(len(payload))
	}
	if rng.IntN(2) == 0 {
		h.Flags, h.PktNum = 0, 0
	}
	b := make([]byte, wire.MaxRecordHead)
	return append(b[:wire.PutRecord(b, &h, len(payload), another, token)], payload...)
}

// TestBundleCut: of a bundle that the capture cut, the packets that are there from end to end.
func TestBundleCut(t *testing.T) {
	const headers = 14 + 40 + 8 // bytes of Ethernet, IPv6 and UDP
	cut := func(n int) pcap.Config { return pcap.Config{SnapLen: headers + n} }
	list := golden(t)
	pkt := list[len(list)-1]
	for len(pkt) < 200 || !wire.IsBundle(pkt) { // the one of all types
		list = list[:len(list)-1]
		pkt = list[len(list)-1]
	}
	if !wire.IsBundle(pkt) {
		t.Fatalf("% x is no bundle", pkt)
	}
	for _, n := range []int{33, 100, 101, 226 + 15, 226 + 16} {
		file := record(t, cut(n), func(send func(src, dst string, pkt []byte)) {
			send("[2001:db8::1]:40000", "[2001:db8::2]:31850", pkt)
		})
		rows := dissect(t, file)
		if len(rows) != 1 {
			t.Fatalf("%d bytes: %d rows", n, len(rows))
		}
		want := expectBundle(pkt[:n], len(pkt), unlearned)
		for _, f := range fields {
			if strings.HasPrefix(f, "erpc.") && !same(rows[0][f], want[f]) {
				t.Errorf("%d bytes: %s is %q, want %q", n, f, rows[0][f], want[f])
			}
		}
	}
}

// TestBundleInfo: the column of the packet list names the packets inside, the first eight of many.
func TestBundleInfo(t *testing.T) {
	var want []string
	var list [][]byte
	for _, n := range []int{1, 8, 9} {
		b := make([]byte, wire.BundleHeaderSize)
		for range n {
			head := make([]byte, wire.MaxRecordHead)
			b = append(b, head[:wire.PutRecord(head, &wire.Header{Type: wire.TypeAck}, 0, false, 0)]...)
		}
		wire.PutBundle(b, wire.Version, n, 12*n, 3, 0)
		list = append(list, b)
		text := strings.Repeat("ACK, ", min(n, 8))
		if n <= 8 {
			text = strings.TrimSuffix(text, ", ")
		} else {
			text += "..."
		}
		want = append(want, fmt.Sprintf("BUNDLE packets=%d content=%d padding=0: %s", n, 12*n, text))
	}
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for _, pkt := range list {
			send("10.0.0.1:40000", "10.0.0.2:31850", pkt)
		}
	})
	got := strings.TrimSpace(tshark(t, file, "-T", "fields", "-e", "_ws.col.Info"))
	if got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
