package layer

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/wire"
)

// buildBundle serializes a bundle in front of its padding.
func buildBundle(b *Bundle, padding string, opts gopacket.SerializeOptions) ([]byte, error) {
	s := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(s, opts, b, gopacket.Payload(padding))
	return s.Bytes(), err
}

// checkBundle compares the layers of a datagram that begins as a bundle with what package wire
// reads: one of the bundle, one for each packet inside. They are written back with the same fields.
func checkBundle(t *testing.T, p gopacket.Packet, pkt []byte) {
	t.Helper()
	var in wire.Bundle
	if err := in.Parse(pkt); err != nil {
		if p.Layer(BundleType) != nil || p.Layer(LayerType) != nil || p.ErrorLayer().Error() != err {
			t.Fatalf("%v, layers %v", err, p)
		}
		return
	}
	b, ok := p.Layer(BundleType).(*Bundle)
	if !ok || p.ErrorLayer() != nil {
		t.Fatalf("no bundle in %v", p)
	}
	var inside []*ERPC
	for _, l := range p.Layers() {
		if e, ok := l.(*ERPC); ok {
			inside = append(inside, e)
		}
	}
	if len(inside) != b.Count || len(b.Packets) != b.Count || b.Count != int(pkt[1]) ||
		b.Session != inside[0].Session || b.Token != wire.Token(pkt) || b.Token != inside[0].Token ||
		b.Opened() != wire.OpenMgmt(pkt) || len(b.Contents) != 16+b.Content ||
		!bytes.Equal(slices.Concat(b.Contents, b.Payload), pkt) {
		t.Fatalf("%d packets in %+v", len(inside), b)
	}
	records, newer := b.Contents[:16:16], false
	for i, e := range inside {
		var want wire.Header
		payload, ok := in.Next(&want)
		if !ok || e.Header != want || e.Token != in.Token() || e.Opened() != e.Token || !e.Bundled {
			t.Fatalf("packet %d is %+v, want %+v", i, e, want)
		}
		records = slices.Concat(records, e.Contents, e.Payload)
		if e.Type == wire.TypeErr {
			fault, _ := wire.ParseError(payload)
			if !reflect.DeepEqual(e.Fault, fault) || fault.Status != wire.StatusOK && len(e.Payload) > 0 {
				t.Fatalf("packet %d is %+v, want %+v", i, e, fault)
			}
			// What a newer version may set in an error is not written back.
			newer = newer || fault.Status != wire.StatusOK &&
				!bytes.Equal(wire.AppendError(nil, &fault), payload)
		} else if !bytes.Equal(e.Payload, payload) || e.Fault.Status != wire.StatusOK {
			t.Fatalf("packet %d has % x, want % x", i, e.Payload, payload)
		}
	}
	if !bytes.Equal(records, b.Contents) {
		t.Fatalf("records % x, want % x", records, b.Contents)
	}
	again, err := buildBundle(b, string(b.Payload), gopacket.SerializeOptions{})
	var second Bundle
	if err != nil || second.DecodeFromBytes(again, gopacket.NilDecodeFeedback) != nil ||
		!sameInside(second.Packets, b.Packets) || second.Token != b.Token || len(again) > len(pkt) {
		t.Fatalf("written back: %v\n% x\n% x", err, again, pkt)
	}
	if len(again) == len(pkt) && !bytes.Equal(again, pkt) && !newer {
		t.Fatalf("written back:\n% x\n% x", again, pkt)
	}
}

func sameInside(a, b []ERPC) bool {
	return slices.EqualFunc(a, b, func(x, y ERPC) bool {
		return x.Header == y.Header && x.Token == y.Token && reflect.DeepEqual(x.Fault, y.Fault) &&
			bytes.Equal(x.Payload, y.Payload)
	})
}

// testBundle returns a bundle of a request, an error and an ACK.
func testBundle() *Bundle {
	return &Bundle{Packets: []ERPC{
		{Header: wire.Header{Type: wire.TypeReq, Session: 3}, Token: 4,
			BaseLayer: layers.BaseLayer{Payload: []byte("four")}},
		{Header: wire.Header{Type: wire.TypeErr, Session: 5}, Token: 6,
			Fault: wire.Error{Status: wire.StatusAborted, Code: wire.CodePanic, Text: []byte("text")}},
		{Header: wire.Header{Type: wire.TypeAck, Version: wire.Version, Session: 5, PktNum: 7}, Token: 6},
	}}
}

// TestBundleCut: of a bundle that was cut, the packets that are there from end to end.
func TestBundleCut(t *testing.T) {
	fix := gopacket.SerializeOptions{FixLengths: true}
	pkt, err := buildBundle(testBundle(), "padding", fix)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{16, 16 + 16, 32 + 20 + 12, 64 + 18}
	if len(pkt) != ends[3]+7 {
		t.Fatalf("%d bytes", len(pkt))
	}
	var b Bundle
	for n := range pkt {
		err := b.DecodeCut(pkt[:n:n], len(pkt), gopacket.NilDecodeFeedback)
		if n < 16 {
			if err != wire.ErrShort {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		there := 0
		for there < 3 && ends[there+1] <= n {
			there++
		}
		if err != nil || len(b.Packets) != there || b.Count != 3 || b.Content != ends[3]-16 ||
			b.Session != 3 || b.Token != 4 || len(b.Contents) != min(n, ends[3]) ||
			len(b.Contents)+len(b.Payload) != n {
			t.Errorf("%d bytes: %v, %+v", n, err, b)
		}
	}
}

// TestBundleParser: the layer works in gopacket's parser, and memory is used again.
func TestBundleParser(t *testing.T) {
	var b Bundle
	parser := gopacket.NewDecodingLayerParser(BundleType, &b)
	var found []gopacket.LayerType
	pkt, err := buildBundle(testBundle(), "", gopacket.SerializeOptions{FixLengths: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := parser.DecodeLayers(pkt, &found); err != nil || len(found) != 1 || len(b.Packets) != 3 {
		t.Errorf("%v, %v, %+v", err, found, b)
	}
	if err := parser.DecodeLayers(pkt[:15], &found); err != wire.ErrShort || !parser.Truncated {
		t.Errorf("cut: %v, truncated %v", err, parser.Truncated)
	}
	n := testing.AllocsPerRun(100, func() { _ = b.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback) })
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if BundleType.String() != "eRPC bundle" || b.LayerType() != BundleType {
		t.Errorf("the layer type is %v", BundleType)
	}
	if err := new(ERPC).DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != wire.ErrType {
		t.Errorf("a bundle as a packet: %v", err)
	}
}

// TestSerializeBundle: sizes and the checksum are filled in, and nothing is built that a receiver
// refuses.
func TestSerializeBundle(t *testing.T) {
	fix := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	pkt, err := buildBundle(testBundle(), "pad", fix)
	var b Bundle
	if err != nil || b.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback) != nil || b.Opened() != 4 ||
		b.Packets[0].MsgSize != 4 || b.Packets[1].MsgSize != 12 || b.Packets[2].MsgSize != 0 ||
		b.Packets[1].Token != 6 || string(b.Payload) != "pad" {
		t.Errorf("%v, %+v", err, b)
	}
	// Sessions with the same token, and tokens of the same session.
	tokens := &Bundle{Packets: slices.Repeat(testBundle().Packets[2:], 3)}
	tokens.Packets[1].Session, tokens.Packets[2].Session, tokens.Packets[2].Token = 9, 9, 10
	pkt, err = buildBundle(tokens, "", fix)
	var again Bundle
	if err != nil || again.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback) != nil ||
		!sameInside(again.Packets[1:], tokens.Packets[1:]) {
		t.Errorf("%v, %+v", err, again)
	}
	// A packet of it alone.
	alone, err := build(&b.Packets[1], nil, gopacket.SerializeOptions{})
	if err != nil || len(alone) != wire.HeaderSize+12 || wire.Token(alone) != 6 {
		t.Errorf("%v, % x", err, alone)
	}
	_, err = buildBundle(testBundle(), "", gopacket.SerializeOptions{})
	if !errors.Is(err, wire.ErrSize) {
		t.Errorf("sizes that do not fit: %v", err)
	}
	for name, change := range map[string]func(*Bundle){
		"no packet":   func(b *Bundle) { b.Packets = nil },
		"256 packets": func(b *Bundle) { b.Packets = slices.Repeat(b.Packets[2:], 256) },
		"65536 bytes": func(b *Bundle) { b.Packets[0].Payload = make([]byte, 65536-12-32-18) },
		"65541 bytes in one": func(b *Bundle) {
			b.Packets = b.Packets[:1]
			b.Packets[0].MsgSize, b.Packets[0].Payload = 70000, make([]byte, 65541)
		},
		"management": func(b *Bundle) { b.Packets[2].Type = wire.TypeMgmt },
		"ping": func(b *Bundle) {
			b.Packets[2] = ERPC{Header: wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing)},
				Body: new(wire.Alive)}
		},
		"a bundle":    func(b *Bundle) { b.Packets[2].Type = wire.TypeBundle },
		"wide type":   func(b *Bundle) { b.Packets[2].Type |= 16 },
		"wide number": func(b *Bundle) { b.Packets[2].ReqNum = wire.MaxReqNum + 1 },
		"no session":  func(b *Bundle) { b.Packets[0].Session = wire.NoSession },
		"no body":     func(b *Bundle) { b.Packets[1].Fault = wire.Error{} },
		"other body":  func(b *Bundle) { b.Packets[2].Fault.Status = 1 },
	} {
		b := testBundle()
		change(b)
		if pkt, err := buildBundle(b, "", fix); err == nil {
			t.Errorf("%s: built % x", name, pkt)
		}
	}
	b = *testBundle()
	b.Packets[0].Payload = make([]byte, 65535-12-32-18)
	if pkt, err := buildBundle(&b, "", fix); err != nil || len(pkt) != 16+65535 {
		t.Errorf("the largest: %v, %d bytes", err, len(pkt))
	}
	b.Packets = slices.Repeat(b.Packets[2:], 255)
	if pkt, err := buildBundle(&b, "", fix); err != nil || len(pkt) != 16+255*18 {
		t.Errorf("the most: %v, %d bytes", err, len(pkt))
	}
}
