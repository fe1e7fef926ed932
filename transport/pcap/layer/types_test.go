package layer

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/wire"
)

// Bodies of ERRs.
const (
	noError    = "\x00\x05\x00\x00\x00\x00\x00\x00"         // its status is OK
	newerError = "\x05\xC8\xFF\x01\x01\x00\x01\x01tdetails" // with what later versions may set
	cutError   = "\x05\x05\x00\x00\x09\x00\x00\x00short"    // its text is longer
)

// errPacket returns an ERR with this body.
func errPacket(body []byte) []byte {
	pkt := make([]byte, wire.HeaderSize, wire.HeaderSize+len(body))
	h := wire.Header{Type: wire.TypeErr, MsgSize: uint32(len(body)), Session: 1}
	h.Put(pkt, 0)
	return append(pkt, body...)
}

// TestErr: a sound body is in Fault and Contents; one that wire.ParseError refuses is payload of a
// sound packet; a size that no ERR has is a failure.
func TestErr(t *testing.T) {
	var e ERPC
	for body, sound := range map[string]bool{newerError: true, noError: false, cutError: false} {
		pkt := errPacket([]byte(body))
		if err := e.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback); err != nil {
			t.Fatalf("% x: %v", body, err)
		}
		contents, payload := pkt, ""
		if !sound {
			contents, payload = pkt[:wire.HeaderSize], body
		}
		if !bytes.Equal(e.Contents, contents) || string(e.Payload) != payload || e.Body != nil {
			t.Errorf("% x: contents % x, payload % x", body, e.Contents, e.Payload)
		}
		checkFault(t, &e, pkt)
		if (e.Fault.Status != wire.StatusOK) != sound {
			t.Errorf("% x: status %v", body, e.Fault.Status)
		}
	}
	if e.DecodeFromBytes(errPacket([]byte(newerError)), gopacket.NilDecodeFeedback) != nil ||
		e.Fault.Code != 200 || !e.Fault.Ran || string(e.Fault.Text) != "t" ||
		string(e.Fault.Details) != "details" {
		t.Errorf("%+v", e.Fault)
	}
	// Fields of an ERR are gone with the next packet.
	pkt, err := build(&ERPC{Header: wire.Header{Type: wire.TypeAck, Session: 1}}, nil,
		gopacket.SerializeOptions{})
	if err != nil || e.DecodeFromBytes(pkt, gopacket.NilDecodeFeedback) != nil ||
		e.Fault.Status != wire.StatusOK || e.Fault.Text != nil {
		t.Errorf("%v, %+v", err, e)
	}
	if err := e.DecodeFromBytes(errPacket(nil), gopacket.NilDecodeFeedback); err != wire.ErrSize {
		t.Errorf("an ERR without a body: %v", err)
	}
}

// TestSerializeErr: an ERR is built from its Fault or from the payload, and never to be refused.
func TestSerializeErr(t *testing.T) {
	fix := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	fault := wire.Error{
		Status: wire.StatusAborted, Code: wire.CodePanic, Ran: true, Text: []byte("text"),
		Details: []byte("details"),
	}
	e := ERPC{Header: wire.Header{Type: wire.TypeErr, Session: 7, Flags: wire.FlagLate, MsgSize: 3},
		Fault: fault, Token: 0xDEADBEEF}
	body := wire.AppendError(nil, &fault)
	fromFault, err := build(&e, nil, fix)
	if err != nil || !bytes.Equal(fromFault[wire.HeaderSize:], body) {
		t.Errorf("%v, % x", err, fromFault)
	}
	var again ERPC
	if err := again.DecodeFromBytes(fromFault, gopacket.NilDecodeFeedback); err != nil ||
		again.Opened() != 0xDEADBEEF || int(again.MsgSize) != len(body) {
		t.Errorf("%v, %+v", err, again)
	}
	checkFault(t, &again, fromFault)
	if pkt, err := build(&e, nil, gopacket.SerializeOptions{}); !errors.Is(err, wire.ErrSize) {
		t.Errorf("a wrong size: %v, % x", err, pkt)
	}
	e.Fault = wire.Error{}
	if pkt, err := build(&e, body, fix); err != nil || !bytes.Equal(pkt, fromFault) {
		t.Errorf("from the payload: %v, % x", err, pkt)
	}

	change := func(f func(*wire.Error)) wire.Error {
		c := fault
		f(&c)
		return c
	}
	long := make([]byte, wire.MaxErrorText+1)
	for name, bad := range map[string]wire.Error{
		"code OK":        change(func(f *wire.Error) { f.Code = 0 }),
		"status 17":      change(func(f *wire.Error) { f.Status = 17 }),
		"a long text":    change(func(f *wire.Error) { f.Text = long }),
		"long details":   change(func(f *wire.Error) { f.Details = long[:wire.MaxErrorDetails+1] }),
		"nothing at all": {},
	} {
		e.Fault = bad
		if pkt, err := build(&e, nil, fix); err == nil {
			t.Errorf("%s: built % x", name, pkt)
		}
	}
	e.Fault = change(func(f *wire.Error) {
		f.Text, f.Details = long[:wire.MaxErrorText], long[:wire.MaxErrorDetails]
	})
	if pkt, err := build(&e, nil, fix); err != nil || len(pkt) != wire.HeaderSize+wire.MaxErrorSize {
		t.Errorf("the longest: %v, %d bytes", err, len(pkt))
	}
	e.Type, e.Flags = wire.TypeResp, 0
	if pkt, err := build(&e, nil, fix); err == nil {
		t.Errorf("a response with an error: built % x", pkt)
	}
}

// TestFixLengths: types without payload get the size 0, but RFRs and CRs keep theirs.
func TestFixLengths(t *testing.T) {
	for typ, want := range map[wire.Type]uint32{
		wire.TypeReq: 5, wire.TypeResp: 5, wire.TypeRFR: 5, wire.TypeCR: 5, wire.TypeWait: 0,
		wire.TypePast: 0, wire.TypeCancel: 0, wire.TypeAck: 0,
	} {
		e := ERPC{Header: wire.Header{Type: typ, MsgSize: 5, Session: 1}}
		pkt, err := build(&e, nil, gopacket.SerializeOptions{FixLengths: true})
		var h wire.Header
		if err != nil || h.Parse(pkt) != nil || h.MsgSize != want {
			t.Errorf("%v: %v, size %d, want %d", typ, err, h.MsgSize, want)
		}
		pkt, err = build(&e, []byte("x"), gopacket.SerializeOptions{FixLengths: true})
		if carries := typ == wire.TypeReq || typ == wire.TypeResp; (err == nil) != carries {
			t.Errorf("%v with a payload: %v, % x", typ, err, pkt)
		}
	}
}

// TestRemaining: request packet 0 tells the time left, and nothing else does.
func TestRemaining(t *testing.T) {
	field := wire.TryRemaining(5, 3*time.Millisecond)
	for _, x := range []struct {
		h    wire.Header
		want time.Duration
		ok   bool
	}{
		{wire.Header{Type: wire.TypeReq, Hold: field}, 3072 * time.Microsecond, true},
		{wire.Header{Type: wire.TypeReq, Hold: 5}, 0, false},
		{wire.Header{Type: wire.TypeReq, Hold: field, PktNum: 1}, 0, false},
		{wire.Header{Type: wire.TypeRFR, Hold: field}, 0, false},
		{wire.Header{Type: wire.TypeCR, Hold: field}, 0, false},
	} {
		e := ERPC{Header: x.h}
		if got, ok := e.Remaining(); got != x.want || ok != x.ok {
			t.Errorf("%+v: %v, %v", x.h, got, ok)
		}
		if try, ok := e.Try(); !ok || try != 5 {
			t.Errorf("%+v: try %d, %v", x.h, try, ok)
		}
	}
}

// TestFlagNames: the second bit has the name that it has in its type, and the cut its size.
func TestFlagNames(t *testing.T) {
	const all = wire.FlagCE | wire.FlagQuiet
	for _, x := range []struct {
		typ   wire.Type
		flags wire.Flags
		want  string
	}{
		{wire.TypeReq, 0, "[]"},
		{wire.TypeReq, wire.FlagQuiet, "[QUIET]"},
		{wire.TypeRFR, wire.Cut(1).Flags(), "[CUT=1452]"},
		{wire.TypeCR, all | wire.Cut(2).Flags(), "[CE GAP CUT=1232]"},
		{wire.TypeCR, wire.FlagCE, "[CE]"},
		{wire.TypeResp, all | wire.Cut(3).Flags(), "[CE LATE CUT=1024]"},
		{wire.TypeErr, wire.FlagLate, "[LATE]"},
		{wire.TypeWait, wire.FlagKeep, "[KEEP]"},
		{wire.TypeAck, 0, "[]"},
		{wire.TypeAck, 0xFF, "[CE]"}, // nobody sends that
	} {
		e := ERPC{Header: wire.Header{Type: x.typ, Flags: x.flags}}
		if got := fmt.Sprint(e.FlagNames()); got != x.want {
			t.Errorf("%v, flags %#x: %s, want %s", x.typ, x.flags, got, x.want)
		}
	}
}
