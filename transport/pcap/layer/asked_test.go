package layer

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/wire"
)

var (
	theClient = netip.MustParseAddrPort("10.0.0.1:40000")
	theServer = netip.MustParseAddrPort("10.0.0.2:31850")
)

// TestTypes: an answer has the type of the request that it answers, by the pair of sessions if the
// Accept that made it was seen; else by the number alone, if that says it.
func TestTypes(t *testing.T) {
	req := func(session uint32, num uint64, typ uint8) *ERPC {
		return &ERPC{Header: wire.Header{Type: wire.TypeReq, Version: wire.Version, Session: session,
			ReqNum: num, ReqType: typ}}
	}
	answer := func(typ wire.Type, version uint8, session uint32, num uint64, b byte) *ERPC {
		return &ERPC{Header: wire.Header{Type: typ, Version: version, Session: session, ReqNum: num,
			ReqType: b}}
	}
	accept := &ERPC{Body: &wire.Accept{Session: 3}}
	accept.Type, accept.ReqType, accept.Session = wire.TypeMgmt, uint8(wire.OpAccept), 7
	const v2, v3 = wire.OldVersion, wire.Version
	var types Types
	for i, c := range []struct {
		e    *ERPC
		want string
	}{
		{answer(wire.TypeResp, v3, 7, 8, 99), "unknown"},
		{answer(wire.TypeResp, v2, 7, 8, 99), "99"},
		{accept, "unknown"},
		{req(3, 8, 20), "20"}, {answer(wire.TypeResp, v3, 7, 8, 99), "20"},
		{answer(wire.TypeCR, v3, 7, 8, 0), "20"}, {answer(wire.TypeErr, v3, 7, 8, 255), "20"},
		{req(4, 8, 30), "30"}, // of a session whose Accept was not seen
		{answer(wire.TypeResp, v3, 7, 8, 99), "20"},
		{answer(wire.TypeResp, v3, 9, 8, 99), "unknown"}, // 20 or 30
		{req(4, 16, 30), "30"}, {answer(wire.TypeWait, v3, 9, 16, 99), "30"},
		{req(3, 8, 21), "21"}, {answer(wire.TypePast, v3, 7, 8, 99), "21"}, // a session after it
		{answer(wire.TypeAck, v3, 3, 8, 6), "6"},
	} {
		src, dst := theServer, theClient
		if c.e.Type == wire.TypeReq || c.e.Type == wire.TypeAck {
			src, dst = dst, src
		}
		got := "unknown"
		if typ, ok := types.Of(src, dst, c.e); ok {
			got = fmt.Sprint(typ)
		}
		if got != c.want {
			t.Errorf("packet %d, %v: %s, want %s", i, c.e.Type, got, c.want)
		}
	}
	for num := range uint64(10 * mostRemembered) {
		types.Of(theClient, theServer, req(3, num, 1))
		if n := len(types.now.asked) + len(types.before.asked); n > 2*mostRemembered+2 {
			t.Fatalf("%d requests are remembered", n)
		}
	}
	if typ, ok := types.Of(theServer, theClient, answer(wire.TypeResp, v3, 9, 10*mostRemembered-1,
		0)); !ok || typ != 1 {
		t.Errorf("the last request: %d, %v", typ, ok)
	}
}

// TestReserved: what version 3 reserves is built and read: host delays, and lists of holes.
func TestReserved(t *testing.T) {
	holes := wire.AppendHole(wire.AppendHole(nil, 70_000, 3), 80_000, 1)
	cr := &ERPC{Header: wire.Header{Type: wire.TypeCR, Flags: wire.FlagGap, Session: 1, PktNum: 70_000,
		ReqType: wire.HostDelay(time.Millisecond)}}
	pkt, err := build(cr, holes, gopacket.SerializeOptions{FixLengths: true})
	if err != nil {
		t.Fatal(err)
	}
	var e ERPC
	if err := e.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != nil || e.MsgSize != 8 ||
		e.PktNum != 70_000 {
		t.Fatalf("%v, %+v", err, e)
	}
	h, ok := e.Holes()
	if !ok || h.Len() != 2 {
		t.Fatalf("%v, %d holes", ok, h.Len())
	}
	if first, n := h.At(0); first != 70_000 || n != 3 {
		t.Errorf("%d packets from %d on", n, first)
	}
	if d, said := e.HostDelay(); !said || d > time.Millisecond || d < 930*time.Microsecond {
		t.Errorf("a delay of %v, %v", d, said)
	}
	for name, x := range map[string]*ERPC{
		"of no CR": {Header: wire.Header{Type: wire.TypeResp}}, "none": {Header: cr.Header},
	} {
		if _, ok := x.Holes(); ok {
			t.Errorf("holes %s", name)
		}
	}
	cr.Version = wire.OldVersion
	if _, err := build(cr, holes, gopacket.SerializeOptions{FixLengths: true}); err != wire.ErrSize {
		t.Errorf("in version 2: %v", err)
	}
	mixed := testBundle()
	mixed.Packets[1].Version = wire.OldVersion
	if _, err := buildBundle(mixed, "", gopacket.SerializeOptions{FixLengths: true}); err == nil {
		t.Error("a bundle of packets of both versions")
	}
}
