package wire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzParse: Parse never panics, and what it accepts is written back to the same bytes.
func FuzzParse(f *testing.F) {
	for _, spoken = range []uint8{OldVersion, Version} {
		for _, g := range goldenPackets() {
			f.Add(g.bytes)
		}
	}
	f.Add([]byte{})
	f.Add(make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, pkt []byte) {
		var h Header
		if err := h.Parse(pkt); err != nil {
			return
		}
		if h.Type >= numTypes || h.Session>>31 != 0 ||
			h.Type != TypeMgmt && h.Session&NoSession == NoSession {
			t.Fatalf("accepted %+v", h)
		}
		if h.Type != TypeMgmt && len(pkt)-HeaderSize > int(h.MsgSize) {
			t.Fatalf("accepted %d bytes of payload for a message of %d", len(pkt)-HeaderSize, h.MsgSize)
		}
		var b [HeaderSize]byte
		h.Put(b[:], Token(pkt))
		if h.Session == NoSession {
			b[11] = pkt[11] // is skipped
		}
		if !bytes.Equal(b[:], pkt[:HeaderSize]) {
			t.Fatalf("% x was read as %+v, which is % x", pkt[:HeaderSize], h, b)
		}
		if h.Type == TypeErr {
			checkError(t, pkt[HeaderSize:])
		}
		own := bytes.Clone(pkt) // a fuzz target must not write to its input
		SealMgmt(own, 0xDEADBEEF)
		if got := OpenMgmt(own); got != 0xDEADBEEF {
			t.Fatalf("sealed with deadbeef, opened as %#x", got)
		}
	})
}

// checkError: what ParseError accepts is written back to the same bytes, but for what it skips.
func checkError(t *testing.T, b []byte) {
	e, err := ParseError(b)
	if err != nil {
		return
	}
	own := bytes.Clone(b)
	own[2] &= errorRan
	own[3], own[6], own[7] = 0, 0, 0
	if again := AppendError(nil, &e); !bytes.Equal(again, own) {
		t.Fatalf("error % x was written back as % x", b, again)
	}
}

// body is a management body.
type body interface {
	Put([]byte)
	Parse([]byte)
}

// newBody returns an empty body for each operation.
func newBody(op Op) body {
	switch op {
	case OpConnect, OpOpen:
		return new(Connect)
	case OpChallenge:
		return new(Challenge)
	case OpAccept:
		return new(Accept)
	case OpRefuse:
		return new(Refuse)
	case OpCrypto:
		return new(Crypto)
	case OpNoKeys:
		return new(NoKeys)
	}
	return new(Alive)
}

// reserved returns the ranges of bytes (first, one past the last) of a body that
// carry nothing, by the layouts in mgmt.go.
func reserved(op Op) [][2]int {
	switch op {
	case OpConnect, OpOpen, OpAccept: // in the offer
		return [][2]int{{38, 40}, {44, 48}}
	case OpRefuse:
		return [][2]int{{9, RefuseSize}}
	case OpDisconnect, OpDisconnectAck, OpPing, OpPong, OpReset, OpMoved, OpDrain, OpDrainAck:
		return [][2]int{{20, AliveSize}}
	}
	return nil
}

// FuzzMgmt: a body of the right size never makes Parse panic, and Put writes back
// every byte that is not reserved; reserved bits become zero.
func FuzzMgmt(f *testing.F) {
	for _, g := range goldenPackets() {
		var h Header
		if h.Parse(g.bytes) == nil && h.Type == TypeMgmt {
			f.Add(h.ReqType, g.bytes[HeaderSize:])
		}
	}
	for op := Op(1); op < numOps; op++ { // reserved bits set, known ones clear
		f.Add(uint8(op), bytes.Repeat([]byte{0xFE}, bodySize[op]))
	}
	f.Fuzz(func(t *testing.T, rawOp uint8, in []byte) {
		op := Op(rawOp)
		if op == 0 || op >= numOps || len(in) < bodySize[op] {
			return
		}
		want := append([]byte(nil), in[:bodySize[op]]...)
		for _, r := range reserved(op) {
			clear(want[r[0]:r[1]])
		}
		first := newBody(op)
		first.Parse(in)
		got := bytes.Repeat([]byte{0xEE}, bodySize[op])
		first.Put(got)
		if !bytes.Equal(got, want) {
			t.Fatalf("%v: got % x, want % x", op, got, want)
		}
	})
}

// FuzzBundle: Parse never panics, bundles that it accepts hold sound packets, and these are written
// back to a bundle of the same packets. Nothing behind the datagram counts.
func FuzzBundle(f *testing.F) {
	for _, spoken = range []uint8{OldVersion, Version} {
		for _, g := range goldenPackets() {
			f.Add(g.bytes)
		}
	}
	f.Add(twoRecords())
	f.Add(benchBundle(3))
	f.Fuzz(func(t *testing.T, pkt []byte) {
		pkt = slices.Clip(bytes.Clone(pkt)) // to read beyond it is a panic
		var b, more Bundle
		err := b.Parse(pkt)
		roomy := append(bytes.Clone(pkt), "behind it"...)[:len(pkt)]
		if again := more.Parse(roomy); again != err {
			t.Fatalf("%v, with room behind it %v", err, again)
		}
		list := open(t, &b)
		if (err == nil) != (len(list) > 0) || len(list) > 0 && len(list) != int(pkt[1]) {
			t.Fatalf("%v, %d packets", err, len(list))
		}
		if !same(open(t, &more), list) {
			t.Fatal("what stands behind the datagram counts")
		}
		if err != nil {
			return
		}
		for _, x := range list {
			var h Header
			if err := h.Parse(packet(x.Header, 0, x.payload)); err != nil || h != x.Header {
				t.Fatalf("%+v alone: %v, %+v", x, err, h)
			}
		}
		checkBundle(t, pkt, list)
	})
}

// checkBundle: the packets of a bundle are written back to a bundle of the same packets, which is
// no larger. Both are the same bytes if they are as large, but for the padding.
func checkBundle(t *testing.T, pkt []byte, list []inside) {
	for i := 1; i < len(list); i++ {
		if list[i].Session == list[i-1].Session && list[i].token != list[i-1].token {
			return // the helper tells sessions apart by their numbers
		}
	}
	content := int(binary.LittleEndian.Uint16(pkt[2:]))
	again := bundle(list...)
	if !same(mustOpen(t, again), list) {
		t.Fatalf("% x\nwas written back as % x", pkt, again)
	}
	size := BundleHeaderSize + content
	if len(again) > size || len(again) == size && !bytes.Equal(again, pkt[:size]) {
		t.Fatalf("% x\nwas written back as % x", pkt[:size], again)
	}
}
