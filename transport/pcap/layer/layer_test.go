package layer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/wire"
)

// golden returns the packets whose bytes package wire keeps.
func golden(t testing.TB) (names []string, packets [][]byte) {
	t.Helper()
	var text []byte
	for _, version := range []string{"2", "3"} {
		b, err := os.ReadFile("../../../wire/testdata/packets" + version + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			names, packets = append(names, strings.TrimSpace(name)), append(packets, nil)
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(line)[1:], ""))
		if err != nil {
			t.Fatal(err)
		}
		packets[len(packets)-1] = append(packets[len(packets)-1], b...)
	}
	if len(packets) < 15 {
		t.Fatalf("only %d packets", len(packets))
	}
	return names, packets
}

// frame wraps a packet in Ethernet, IPv4 and UDP.
func frame(t testing.TB, src, dst layers.UDPPort, pkt []byte) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6),
		EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1},
		DstIP: []byte{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: src, DstPort: dst}
	_ = udp.SetNetworkLayerForChecksum(ip)
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true,
		ComputeChecksums: true}, eth, ip, udp, gopacket.Payload(pkt)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parse(t testing.TB, src, dst layers.UDPPort, pkt []byte) gopacket.Packet {
	t.Helper()
	return gopacket.NewPacket(frame(t, src, dst, pkt), layers.LayerTypeEthernet, gopacket.Default)
}

// build serializes a layer in front of a payload.
func build(e *ERPC, payload []byte, opts gopacket.SerializeOptions) ([]byte, error) {
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, opts, e, gopacket.Payload(payload))
	return b.Bytes(), err
}

// TestGolden: gopacket finds the layer in packets of the registered port, its fields are
// those that package wire reads, and they are written back to the same bytes.
func TestGolden(t *testing.T) {
	names, packets := golden(t)
	types := map[wire.Type]int{}
	ops := map[wire.Op]int{}
	for i, pkt := range packets {
		t.Run(names[i], func(t *testing.T) {
			p := parse(t, 40000, DefaultPort, pkt)
			if new(wire.VersionRefusal).Parse(pkt) {
				if p.ErrorLayer() == nil || p.ErrorLayer().Error() != wire.ErrVersion {
					t.Errorf("a packet of no version: %v", p)
				}
				return
			}
			if wire.IsSealed(pkt) {
				types[wire.TypeSealed]++
				checkSealed(t, p, pkt)
				return
			}
			if wire.IsBundle(pkt) {
				types[wire.TypeBundle]++
				checkBundle(t, p, pkt)
				return
			}
			e, ok := p.Layer(LayerType).(*ERPC)
			if !ok || p.ErrorLayer() != nil {
				t.Fatalf("no layer in %v", p)
			}
			var want wire.Header
			if err := accepts(&want, pkt); err != nil {
				t.Fatal(err)
			}
			size := wire.HeaderSize
			if want.Type == wire.TypeErr {
				size = len(pkt)
			}
			checkFault(t, e, pkt)
			if want.Type == wire.TypeMgmt {
				size += int(want.MsgSize)
				ops[e.Op()]++
				checkBody(t, e.Op(), e.Body, pkt[wire.HeaderSize:])
			} else if e.Body != nil {
				t.Errorf("a body: %+v", e.Body)
			}
			types[e.Type]++
			if e.Header != want || e.Token != wire.Token(pkt) || !bytes.Equal(e.Contents, pkt[:size]) ||
				!bytes.Equal(e.Payload, pkt[size:]) {
				t.Errorf("%+v\nwant %+v", e, want)
			}
			if l := p.Layer(gopacket.LayerTypePayload); (l != nil) != (len(pkt) > size) ||
				l != nil && !bytes.Equal(l.LayerContents(), pkt[size:]) {
				t.Errorf("payload layer: %v", l)
			}
			same := bytes.Clone(pkt)
			if e.Session == wire.NoSession {
				wire.SetLoop(same, 0) // wire.Header does not keep it
			}
			if again, err := build(e, e.Payload, gopacket.SerializeOptions{}); err != nil ||
				!bytes.Equal(again, same) {
				t.Errorf("written back: %v\n% x\n% x", err, again, pkt)
			}
			if e.Type == wire.TypeMgmt && e.Opened() != wire.OpenMgmt(pkt) {
				t.Errorf("opened as %#x, want %#x", e.Opened(), wire.OpenMgmt(pkt))
			}
		})
	}
	if len(types) != 12 || len(ops) != 15 {
		t.Errorf("types %v, operations %v", types, ops)
	}
}

// checkFault compares the body of an ERR with what package wire reads. No other packet has one.
func checkFault(t *testing.T, e *ERPC, pkt []byte) {
	t.Helper()
	var want wire.Error
	if e.Type == wire.TypeErr {
		want, _ = wire.ParseError(pkt[wire.HeaderSize:])
	}
	if !reflect.DeepEqual(e.Fault, want) {
		t.Errorf("fault %+v, want %+v", e.Fault, want)
	}
}

// checkBody compares a body with what package wire reads.
func checkBody(t *testing.T, op wire.Op, got Body, b []byte) {
	t.Helper()
	var want Body
	switch op {
	case wire.OpConnect, wire.OpOpen:
		want = new(wire.Connect)
	case wire.OpChallenge:
		want = new(wire.Challenge)
	case wire.OpAccept:
		want = new(wire.Accept)
	case wire.OpRefuse:
		want = new(wire.Refuse)
	case wire.OpCrypto:
		want = new(wire.Crypto)
	case wire.OpNoKeys:
		want = new(wire.NoKeys)
	default:
		want = new(wire.Alive)
	}
	want.Parse(b)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("body %+v, want %+v", got, want)
	}
}

// TestMalformed: what package wire refuses is no layer but a failure with wire's error.
func TestMalformed(t *testing.T) {
	good := make([]byte, wire.HeaderSize)
	(&wire.Header{Type: wire.TypeResp, Session: 1}).Put(good, 0)
	spoil := func(at int, b byte) []byte {
		x := bytes.Clone(good)
		x[at] = b
		return x
	}
	for want, pkt := range map[error][]byte{
		wire.ErrBundle: spoil(0, 0x2A),
		wire.ErrShort:  good[:23], wire.ErrVersion: spoil(0, 0x43), wire.ErrType: spoil(0, 0x2B),
		wire.ErrFlags:   append([]byte{0x31}, spoil(7, 0x10)[1:]...),
		wire.ErrReqType: append([]byte{0x20, 255}, good[2:]...),
		wire.ErrSize:    append(bytes.Clone(good), 1),
		wire.ErrSession: append(append(bytes.Clone(good[:8]), 255, 255, 255, 0), good[12:]...),
	} {
		p := parse(t, DefaultPort, 40000, pkt)
		if p.Layer(LayerType) != nil || p.ErrorLayer() == nil || p.ErrorLayer().Error() != want {
			t.Errorf("%v: got %v in %v", want, p.ErrorLayer(), p)
		}
		if p.Metadata().Truncated != (want == wire.ErrShort) {
			t.Errorf("%v: truncated %v", want, p.Metadata().Truncated)
		}
	}
	if p := parse(t, DefaultPort, 40000, good); p.Layer(LayerType) == nil {
		t.Errorf("the good packet: %v", p)
	}
}

func TestRegisterPort(t *testing.T) {
	pkt := make([]byte, wire.HeaderSize)
	(&wire.Header{Type: wire.TypeCR, Session: 1}).Put(pkt, 0)
	const port = 45678
	if p := parse(t, 40000, port, pkt); p.Layer(LayerType) != nil {
		t.Fatal("the port is known already")
	}
	RegisterPort(port)
	defer layers.RegisterUDPPortLayerType(port, gopacket.LayerTypePayload)
	for _, ends := range [][2]layers.UDPPort{{40000, port}, {port, 40000}} {
		if e, ok := parse(t, ends[0], ends[1], pkt).Layer(LayerType).(*ERPC); !ok ||
			e.Type != wire.TypeCR {
			t.Errorf("%v: no layer", ends)
		}
	}
	if LayerType.String() != "eRPC" || (&ERPC{}).LayerType() != LayerType {
		t.Errorf("the layer type is %v", LayerType)
	}
}

// TestParser: the layer works in gopacket's parser that reuses layers, and what a
// management packet left there is gone with the next packet.
func TestParser(t *testing.T) {
	var e ERPC
	var payload gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(LayerType, &e, &payload)
	var found []gopacket.LayerType
	ping := &ERPC{Header: wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing), Session: 3},
		Body: &wire.Alive{Seq: 9}, Token: 5}
	a, err := build(ping, []byte("padding"),
		gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := parser.DecodeLayers(a, &found); err != nil || len(found) != 2 ||
		e.Body.(*wire.Alive).Seq != 9 || string(payload) != "padding" || e.Opened() != 5 {
		t.Errorf("%v, %v, %+v", err, found, e)
	}
	b, err := build(&ERPC{Header: wire.Header{Type: wire.TypeRFR, Session: 4}}, nil,
		gopacket.SerializeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := parser.DecodeLayers(b, &found); err != nil || len(found) != 1 || e.Body != nil ||
		e.Session != 4 || len(e.Payload) != 0 {
		t.Errorf("%v, %v, %+v", err, found, e)
	}
	if n := testing.AllocsPerRun(100,
		func() { _ = e.DecodeFromBytes(b, gopacket.NilDecodeFeedback) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSerialize(t *testing.T) {
	fix := gopacket.SerializeOptions{FixLengths: true}
	sealed := gopacket.SerializeOptions{ComputeChecksums: true}
	req := ERPC{Header: wire.Header{Type: wire.TypeReq, ReqType: 7, MsgSize: 2, Session: 9,
		ReqNum: 1 << 40, PktNum: 3}, Token: 0xDEADBEEF}
	if _, err := build(&req, []byte("four"), gopacket.SerializeOptions{}); !errors.Is(err,
		wire.ErrSize) {
		t.Errorf("a payload larger than its message: %v", err)
	}
	pkt, err := build(&req, []byte("four"), fix)
	var h wire.Header
	if err != nil || h.Parse(pkt) != nil || h.MsgSize != 4 || h.ReqNum != 1<<40 ||
		wire.Token(pkt) != 0xDEADBEEF || string(pkt[24:]) != "four" {
		t.Errorf("%v, %+v", err, h)
	}
	req.MsgSize = 5000 // one packet of several
	if pkt, err = build(&req, []byte("four"), fix); err != nil || h.Parse(pkt) != nil ||
		h.MsgSize != 5000 {
		t.Errorf("%v, %+v", err, h)
	}
	if pkt, err = build(&req, []byte("four"), sealed); err != nil ||
		wire.Token(pkt)^wire.Checksum(pkt, nil) != 0xDEADBEEF {
		t.Errorf("checksum: %v, % x", err, pkt)
	}
	for name, bad := range map[string]ERPC{
		"no body": {Header: wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing),
			Session: 1}},
		"another body": {Header: wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing),
			Session: 1}, Body: new(wire.Refuse)},
		"no operation": {Header: wire.Header{Type: wire.TypeMgmt, ReqType: 14, Session: 1},
			Body: new(wire.Alive)},
		"flags of others": {Header: wire.Header{Type: wire.TypeReq, Flags: wire.FlagCE, Session: 1}},
		"wide size": {Header: wire.Header{Type: wire.TypeReq, MsgSize: wire.MaxMsgSize + 1,
			Session: 1}},
		"wide number": {Header: wire.Header{Type: wire.TypeReq, ReqNum: wire.MaxReqNum + 1,
			Session: 1}},
		"wide type": {Header: wire.Header{Type: 16, Session: 1}},
		"cut in a PAST": {Header: wire.Header{
			Type: wire.TypePast, Flags: wire.Cut(1).Flags(), Session: 1}},
		"body of a request": {Header: wire.Header{Type: wire.TypeReq, Session: 1}, Body: new(wire.Alive)},
		"no session number": {Header: wire.Header{Type: wire.TypeReq, Session: wire.NoSession}},
	} {
		if pkt, err := build(&bad, nil, fix); err == nil {
			t.Errorf("%s: built % x", name, pkt)
		}
	}
}

func TestHold(t *testing.T) {
	const us = time.Microsecond
	for _, x := range []struct {
		name    string
		h       wire.Header
		payload int
		kind    HoldKind
		try     int // -1: none
		d       time.Duration
		known   bool
	}{
		{"request", wire.Header{Type: wire.TypeReq, Hold: 63}, 0, HoldTry, 63, 0, false},
		{"RFR", wire.Header{Type: wire.TypeRFR, Hold: 5}, 0, HoldTry, 5, 0, false},
		{"CR", wire.Header{Type: wire.TypeCR, Hold: wire.TryHold(66, 3*1024)}, 0, HoldCoarse, 2,
			3072, true},
		{"CR, long", wire.Header{Type: wire.TypeCR, Hold: wire.TryHold(1, time.Second)}, 0, HoldCoarse, 1,
			1023 * 1024, false},
		{"only response packet", wire.Header{Type: wire.TypeResp, Hold: 1000, MsgSize: 3}, 3, HoldFine,
			-1, 64 * us, true},
		{"empty response", wire.Header{Type: wire.TypeResp, Hold: 0, PktNum: 9}, 0, HoldFine,
			-1, 0, true},
		{"only packet after many", wire.Header{Type: wire.TypeResp, Hold: 1000, MsgSize: 3, PktNum: 9}, 3,
			HoldFine, -1, 64 * us, true},
		{"first of many", wire.Header{Type: wire.TypeResp, Hold: wire.HoldUnknown, MsgSize: 4}, 3,
			HoldFine, -1, 0, false},
		{"one of many", wire.Header{Type: wire.TypeResp, Hold: 1000, MsgSize: 4, PktNum: 1}, 3,
			HoldUnclear, -1, 0, false},
		{"error", wire.Header{Type: wire.TypeErr, Hold: 1000, PktNum: 3}, 0, HoldFine, -1, 64 * us, true},
		{"error, long", wire.Header{Type: wire.TypeErr, Hold: wire.HoldUnknown},
			0, HoldFine, -1, 0, false},
		{"wait", wire.Header{Type: wire.TypeWait, Hold: wire.TryHold(66, 3*1024)},
			0, HoldCoarse, 2, 3072, true},
		{"past", wire.Header{Type: wire.TypePast, Hold: wire.TryHold(7, time.Second)},
			0, HoldTry, 7, 0, false},
		{"cancel", wire.Header{Type: wire.TypeCancel, Hold: 8}, 0, HoldTry, 8, 0, false},
		{"ack", wire.Header{Type: wire.TypeAck, Hold: 9}, 0, HoldNone, -1, 0, false},
		{"management", wire.Header{Type: wire.TypeMgmt, Hold: 1000}, 0, HoldNone, -1, 0, false},
	} {
		e := ERPC{Header: x.h}
		e.Payload = make([]byte, x.payload)
		try, ok := e.Try()
		if e.HoldKind() != x.kind || ok != (x.try >= 0) || ok && try != x.try {
			t.Errorf("%s: kind %d, try %d, %v", x.name, e.HoldKind(), try, ok)
		}
		if d, known := e.HoldTime(); known != x.known || known && d != x.d {
			t.Errorf("%s: held for %v, %v", x.name, d, known)
		}
	}
}

// accepts returns what package wire says of a packet, of the extensions of an offer too. The body
// of an ERR does not count: the layer has a field for what wire.ParseError says.
func accepts(h *wire.Header, pkt []byte) error {
	if err := h.Parse(pkt); err != nil || h.Type != wire.TypeMgmt {
		return err
	}
	end := wire.HeaderSize + int(h.MsgSize)
	switch wire.Op(h.ReqType) {
	case wire.OpConnect, wire.OpOpen:
		return wire.CheckExtensions(pkt[wire.HeaderSize+wire.ConnectSize : end])
	case wire.OpAccept:
		return wire.CheckExtensions(pkt[wire.HeaderSize+wire.AcceptSize : end])
	}
	return nil
}

// cutExtension returns a Connect whose only extension claims more bytes than follow.
func cutExtension() []byte {
	pkt := make([]byte, wire.HeaderSize+wire.ConnectSize+4)
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect),
		MsgSize: wire.ConnectSize + 4,
		Session: wire.NoSession}
	h.Put(pkt, 0)
	new(wire.Connect).Put(pkt[wire.HeaderSize:])
	copy(pkt[len(pkt)-4:], []byte{1, 0, 9, 0})
	return pkt
}

// FuzzLayer: no input panics, inside gopacket's recovery or not; the layer accepts exactly
// what package wire accepts; and what it accepts is written back with the same fields.
func FuzzLayer(f *testing.F) {
	_, packets := golden(f)
	for _, p := range packets {
		f.Add(p)
	}
	f.Add([]byte{})
	f.Add(cutExtension())
	for _, body := range []string{"", noError, newerError, cutError} {
		f.Add(errPacket([]byte(body)))
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		opts := gopacket.DecodeOptions{SkipDecodeRecovery: true, NoCopy: true}
		p := gopacket.NewPacket(pkt, LayerType, opts)
		if wire.IsSealed(pkt) {
			_ = p.String()
			checkSealed(t, p, pkt)
			return
		}
		if wire.IsBundle(pkt) {
			_ = p.String()
			checkBundle(t, p, pkt)
			return
		}
		var want wire.Header
		err := accepts(&want, pkt)
		e, ok := p.Layer(LayerType).(*ERPC)
		if ok != (err == nil) {
			t.Fatalf("layer %v, wire: %v", ok, err)
		}
		if !ok {
			if fail := p.ErrorLayer(); len(pkt) > 0 && (fail == nil || fail.Error() != err) {
				t.Fatalf("failure %v, wire: %v", fail, err)
			}
			return
		}
		_ = p.String() // prints every field
		if e.Header != want || len(e.Contents)+len(e.Payload) != len(pkt) {
			t.Fatalf("%+v, want %+v", e, want)
		}
		checkFault(t, e, pkt)
		if e.Fault.Status != wire.StatusOK && len(e.Payload) > 0 {
			t.Fatalf("an error and a payload: %+v", e)
		}
		e.Try()
		e.HoldTime()
		e.Remaining()
		e.FlagNames()
		again, err := build(e, e.Payload, gopacket.SerializeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var second ERPC
		if err := second.DecodeFromBytes(again, gopacket.NilDecodeFeedback); err != nil ||
			second.Header != e.Header || second.Token != e.Token ||
			!reflect.DeepEqual(second.Body, e.Body) ||
			!reflect.DeepEqual(second.Fault, e.Fault) || !bytes.Equal(second.Payload, e.Payload) {
			t.Fatalf("%v, %+v, was %+v", err, second, e)
		}
	})
}
