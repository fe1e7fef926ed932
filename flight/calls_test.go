package flight_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// record adds a packet to a ring.
func record(r *flight.Ring, kind flight.Kind, at int64, peer *packet.Addr, h wire.Header) {
	b := make([]byte, wire.HeaderSize)
	h.Put(b, 1)
	r.Add(kind, at, peer, b, nil)
}

// TestCallsOfSessions: two sessions with one peer use the same request numbers. Answers of either
// version go to their own calls, once an answer has shown which session is which at the other side.
func TestCallsOfSessions(t *testing.T) {
	for _, version := range []uint8{wire.OldVersion, wire.Version} {
		peer := packet.Addr{IP: [16]byte{15: 1}, Port: 1}
		r := flight.NewRing(64)
		at := int64(0)
		// Session 3 of the server is 10 at the client, and 4 is 11.
		ask := func(session uint32, num uint64, typ uint8) {
			at++
			record(r, flight.Sent, at, &peer, wire.Header{Type: wire.TypeReq, Version: version,
				ReqType: typ, Session: session, ReqNum: num})
		}
		answer := func(typ wire.Type, session uint32, num uint64, reqType uint8) {
			if at++; version == wire.Version {
				reqType = 0
			}
			record(r, flight.Received, at, &peer, wire.Header{Type: typ, Version: version,
				ReqType: reqType, Session: session, ReqNum: num})
		}
		ask(3, 8, 7)
		answer(wire.TypeResp, 10, 8, 7)
		ask(4, 16, 9)
		answer(wire.TypeResp, 11, 16, 9)
		ask(3, 24, 7)
		ask(4, 24, 9)
		answer(wire.TypeWait, 10, 24, 7)
		answer(wire.TypeResp, 10, 24, 7) // the one that began first is answered first
		answer(wire.TypeResp, 11, 24, 9)
		d := r.Dump(packet.Addr{}, 0, 0)
		var got []string
		for _, c := range d.Calls() {
			got = append(got, fmt.Sprint(c.Session, c.Number, c.Type, c.First, c.Answer, c.Packets))
		}
		want := "3 8 7 1 2 2, 4 16 9 3 4 2, 3 24 7 5 8 2, 4 24 9 6 9 2"
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("version %d: %s\nwant %s", version, text, want)
		}
		var text bytes.Buffer
		if err := flight.WriteText(&text, d); err != nil {
			t.Fatal(err)
		}
		if strings.Count(text.String(), "type=7\n")+strings.Count(text.String(), "type=7 ") != 5 ||
			!strings.Contains(text.String(), "WAIT session=10 req=24 pkt=0 size=0 type=7\n") {
			t.Errorf("version %d:\n%s", version, &text)
		}
	}
}

// TestAnswerOfNoCall: an answer whose request was not recorded says no type.
func TestAnswerOfNoCall(t *testing.T) {
	peer := packet.Addr{IP: [16]byte{15: 1}, Port: 1}
	r := flight.NewRing(64)
	record(r, flight.Received, 1, &peer, wire.Header{Type: wire.TypeResp, ReqType: 200, Session: 3})
	var text bytes.Buffer
	if err := flight.WriteText(&text, r.Dump(packet.Addr{}, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "type=") || !strings.Contains(text.String(), "RESP session=3") {
		t.Errorf("%s", &text)
	}
}
