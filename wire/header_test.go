package wire

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// good returns a valid header of type t.
func good(t Type) Header {
	h := Header{Type: t, ReqType: 1, MsgSize: 100, Session: 3, ReqNum: 7, PktNum: 2}.as()
	if t == TypeMgmt {
		h.ReqType, h.MsgSize = uint8(OpPing), AliveSize
	}
	return h
}

// TestPutOnly: PutOnly writes the same as Put.
func TestPutOnly(t *testing.T) { bothVersions(t, testPutOnly) }

func testPutOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 10))
	for range 1000 {
		h := Header{
			Type: Type(r.IntN(numTypes)), ReqType: uint8(r.Uint32()), Hold: uint16(r.Uint32()),
			Session: r.Uint32(), ReqNum: r.Uint64() & maxReqNum(), MsgSize: r.Uint32() & MaxMsgSize,
		}.as()
		token := r.Uint32()
		var want, got [HeaderSize]byte
		h.Put(want[:], token)
		PutOnly(got[:], First(h.Type, spoken), h.ReqType, h.Hold, h.MsgSize, h.Session, token, h.ReqNum)
		if got != want {
			t.Fatalf("%+v: % x, want % x", h, got, want)
		}
	}
}

// TestParseRules breaks one rule at a time and wants that rule's own error.
func TestParseRules(t *testing.T) { bothVersions(t, testParseRules) }

func testParseRules(t *testing.T) {
	with := func(typ Type, change func(*Header)) Header {
		h := good(typ)
		change(&h)
		return h
	}
	tests := []struct {
		name    string
		header  Header
		payload int
		want    error
	}{
		{"request", good(TypeReq), 100, nil},
		{"part of a request", good(TypeReq), 99, nil},
		{"empty request", with(TypeReq, func(h *Header) { h.MsgSize = 0 }), 0, nil},
		{"request: payload larger than the message", good(TypeReq), 101, ErrSize},
		{"request: CE", with(TypeReq, func(h *Header) { h.Flags = FlagCE }), 100, ErrFlags},
		{"request: quiet", with(TypeReq, func(h *Header) { h.Flags = FlagQuiet }), 100, nil},
		{"request: cut", with(TypeReq, func(h *Header) { h.Flags = MaxCut.Flags() }), 100, nil},
		{"RFR: quiet", with(TypeRFR, func(h *Header) { h.Flags = FlagQuiet }), 0, ErrFlags},
		{"RFR: cut", with(TypeRFR, func(h *Header) { h.Flags = MaxCut.Flags() }), 0, nil},
		{"CR: all", with(TypeCR, func(h *Header) { h.Flags = FlagCE | FlagGap | MaxCut.Flags() }), 0,
			nil},
		{"request: type 255", with(TypeReq, func(h *Header) { h.ReqType = 255 }), 100, ErrReqType},
		{"request: type 254", with(TypeReq, func(h *Header) { h.ReqType = 254 }), 100, nil},
		{"request: no session", with(TypeReq, func(h *Header) { h.Session = NoSession }), 100,
			ErrSession},
		{"request: upper bits", with(TypeReq, func(h *Header) { h.Session |= 1 << 31 }), 100, ErrSession},
		{"request: upper bits and no session", with(TypeReq, func(h *Header) { h.Session = 1<<32 - 1 }),
			100, ErrSession},
		{"request: last session", with(TypeReq, func(h *Header) { h.Session = NoSession - 1 }), 100, nil},

		{"response", good(TypeResp), 100, nil},
		{"response: all", with(TypeResp,
			func(h *Header) { h.Flags = FlagCE | FlagLate | MaxCut.Flags() }), 100, nil},
		{"error: all", with(TypeErr, func(h *Header) { h.Flags, h.MsgSize = FlagLate|MaxCut.Flags(), 8 }),
			8, nil},
		{"error: CE", with(TypeErr, func(h *Header) { h.Flags, h.MsgSize = FlagCE, 8 }), 8, ErrFlags},
		{"error: short", with(TypeErr, func(h *Header) { h.MsgSize = 7 }), 7, ErrSize},
		{"error: long", with(TypeErr, func(h *Header) { h.MsgSize = MaxErrorSize + 1 }),
			MaxErrorSize + 1, ErrSize},
		{"error: longest", with(TypeErr, func(h *Header) { h.MsgSize = MaxErrorSize }),
			MaxErrorSize, nil},
		{"error: in parts", with(TypeErr, func(h *Header) { h.MsgSize = 9 }), 8, ErrSize},
		{"wait: all", with(TypeWait,
			func(h *Header) { h.Flags, h.MsgSize = FlagCE|FlagKeep|MaxCut.Flags(), 0 }), 0, nil},
		{"wait: size", with(TypeWait, func(h *Header) { h.MsgSize = 1 }), 0, ErrSize},
		{"wait: payload", with(TypeWait, func(h *Header) { h.MsgSize = 1 }), 1, ErrSize},
		{"past", with(TypePast, func(h *Header) { h.MsgSize = 0 }), 0, nil},
		{"past: cut", with(TypePast, func(h *Header) { h.Flags, h.MsgSize = Cut(1).Flags(), 0 }),
			0, ErrFlags},
		{"cancel", with(TypeCancel, func(h *Header) { h.MsgSize = 0 }), 0, nil},
		{"cancel: keep", with(TypeCancel, func(h *Header) { h.Flags, h.MsgSize = FlagKeep, 0 }),
			0, ErrFlags},
		{"ack", with(TypeAck, func(h *Header) { h.MsgSize = 0 }), 0, nil},
		{"ack: CE", with(TypeAck, func(h *Header) { h.Flags, h.MsgSize = FlagCE, 0 }), 0, ErrFlags},
		{"ack: size", with(TypeAck, func(h *Header) { h.MsgSize = 3 }), 0, ErrSize},
		{"first unknown type", with(numTypes, func(h *Header) {}), 0, ErrType},
		{"response: payload larger than the message", good(TypeResp), 101, ErrSize},
		{"response: type 255", with(TypeResp, func(h *Header) { h.ReqType = 255 }), 100,
			inOld(ErrReqType)},
		{"response: no session", with(TypeResp, func(h *Header) { h.Session = NoSession }), 100,
			ErrSession},

		{"RFR", good(TypeRFR), 0, nil},
		{"RFR: payload", good(TypeRFR), 1, ErrSize},
		{"RFR: CE", with(TypeRFR, func(h *Header) { h.Flags = FlagCE }), 0, ErrFlags},
		{"RFR: type 255", with(TypeRFR, func(h *Header) { h.ReqType = 255 }), 0, ErrReqType},
		{"RFR: no session", with(TypeRFR, func(h *Header) { h.Session = NoSession }), 0, ErrSession},

		{"CR", good(TypeCR), 0, nil},
		{"CR: CE", with(TypeCR, func(h *Header) { h.Flags = FlagCE }), 0, nil},
		{"CR: payload", good(TypeCR), 1, ErrSize},
		{"CR: type 255", with(TypeCR, func(h *Header) { h.ReqType = 255 }), 0,
			inOld(ErrReqType)},
		{"CR: holes without a gap", with(TypeCR, func(h *Header) { h.MsgSize = 4 }), 4, ErrSize},
		{"CR: a hole", with(TypeCR, func(h *Header) { h.Flags, h.MsgSize = FlagGap, 4 }), 4,
			inOld(ErrSize)},
		{"CR: most holes", with(TypeCR, func(h *Header) { h.Flags, h.MsgSize = FlagGap|FlagCE, 128 }),
			128, inOld(ErrSize)},
		{"CR: too many holes", with(TypeCR, func(h *Header) { h.Flags, h.MsgSize = FlagGap, 132 }), 132,
			ErrSize},
		{"CR: half a hole", with(TypeCR, func(h *Header) { h.Flags, h.MsgSize = FlagGap, 6 }), 6,
			ErrSize},
		{"CR: holes of another size", with(TypeCR, func(h *Header) { h.Flags, h.MsgSize = FlagGap, 8 }),
			4, ErrSize},
		{"request: last loop", with(TypeReq, func(h *Header) { h.Session |= 127 << 24 }), 100, nil},
		{"request: loop and no session", with(TypeReq, func(h *Header) {
			h.Session = 127<<24 | NoSession
		}), 100, ErrSession},
		{"CR: loop", with(TypeCR, func(h *Header) { h.Session |= 1 << 24 }), 0, nil},
		{"CR: key phase", with(TypeCR, func(h *Header) { h.Session |= 1 << 31 }), 0, ErrSession},
		{"CR: no session", with(TypeCR, func(h *Header) { h.Session = NoSession }), 0, ErrSession},

		{"management", good(TypeMgmt), AliveSize, nil},
		{"management: no session", with(TypeMgmt, func(h *Header) { h.Session = NoSession }),
			AliveSize, nil},
		{"management: padded", good(TypeMgmt), AliveSize + 1000, nil},
		{"management: body cut", good(TypeMgmt), AliveSize - 1, ErrSize},
		{"management: another size", with(TypeMgmt, func(h *Header) { h.MsgSize-- }), AliveSize, ErrSize},
		{"management: larger body", with(TypeMgmt, func(h *Header) { h.MsgSize++ }), AliveSize + 1, nil},
		{"management: larger body, cut", with(TypeMgmt, func(h *Header) { h.MsgSize++ }),
			AliveSize, ErrSize},
		{"management: session and loop", with(TypeMgmt, func(h *Header) {
			h.Session |= 1 << 24
		}), AliveSize, nil},
		{"management: session and key phase", with(TypeMgmt, func(h *Header) {
			h.Session |= 1 << 31
		}), AliveSize, ErrSession},
		{"management: flag", with(TypeMgmt, func(h *Header) { h.Flags = FlagCE }), AliveSize, ErrFlags},
		{"management: operation 0", with(TypeMgmt, func(h *Header) { h.ReqType = 0 }), AliveSize,
			ErrReqType},
		{"management: operation after the last", with(TypeMgmt, func(h *Header) { h.ReqType = numOps }),
			AliveSize, ErrReqType},
		{"management: operation 255", with(TypeMgmt, func(h *Header) { h.ReqType = 255 }), AliveSize,
			ErrReqType},

		{"unknown type", with(TypeReq, func(h *Header) { h.Type = numTypes }), 0, ErrType},
		{"unknown type 15", with(TypeReq, func(h *Header) { h.Type = 15 }), 0, ErrType},
	}
	for _, tt := range tests {
		var h Header
		err := h.Parse(packet(tt.header, 1, make([]byte, tt.payload)))
		if err != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if err == nil && h != tt.header {
			t.Errorf("%s: got %+v, want %+v", tt.name, h, tt.header)
		}
	}
}

// TestParseShort gives Parse every length below a header, also none at all.
func TestParseShort(t *testing.T) {
	h := good(TypeCR)
	pkt := packet(h, 1, nil)
	for n := range HeaderSize {
		if err := h.Parse(pkt[:n:n]); err != ErrShort {
			t.Errorf("%d bytes: got %v", n, err)
		}
	}
	if err := h.Parse(nil); err != ErrShort {
		t.Errorf("nil: got %v", err)
	}
	if err := h.Parse(pkt); err != nil {
		t.Errorf("a whole header: %v", err)
	}
}

// TestParseVersion tries all sixteen versions.
func TestParseVersion(t *testing.T) {
	for v := range 16 {
		pkt := packet(good(TypeCR), 1, nil)
		pkt[0] = pkt[0]&0x0F | byte(v)<<4
		var h Header
		err := h.Parse(pkt)
		if v == Version || v == OldVersion {
			if err != nil || h.Version != uint8(v) {
				t.Errorf("version %d: got %v, %d", v, err, h.Version)
			}
		} else if err != ErrVersion {
			t.Errorf("version %d: got %v", v, err)
		}
	}
}

// TestErrorsDiffer makes sure that a caller can tell the rules apart.
func TestErrorsDiffer(t *testing.T) {
	all := []error{ErrShort, ErrVersion, ErrType, ErrFlags, ErrReqType, ErrSession, ErrSize,
		ErrStatus, ErrBundle, ErrHoles}
	for i, a := range all {
		for _, b := range all[:i] {
			if errors.Is(a, b) || a.Error() == b.Error() {
				t.Errorf("%v and %v are the same", a, b)
			}
		}
	}
}

// randomHeader returns a valid header and a payload size that fits it.
func randomHeader(r *rand.Rand) (h Header, payload int) {
	h = Header{
		Type:    Type(r.UintN(numTypes)),
		ReqType: uint8(r.UintN(MaxReqType + 1)),
		Hold:    uint16(r.Uint32()),
		PktNum:  r.Uint32N(maxPackets()),
		MsgSize: r.Uint32N(MaxMsgSize + 1),
		Session: r.Uint32N(NoSession),
		ReqNum:  r.Uint64N(maxReqNum() + 1),
	}.as()
	h.Flags = Flags(r.UintN(16)) & allowedFlags[h.Type]
	switch h.Type {
	case TypeResp:
		payload = r.IntN(min(int(h.MsgSize), 2000) + 1)
	case TypeReq:
		payload = r.IntN(min(int(h.MsgSize), 2000) + 1)
	case TypeErr:
		payload = errorHeader + r.IntN(MaxErrorText)
		h.MsgSize = uint32(payload)
	case TypeWait, TypePast, TypeCancel, TypeAck:
		h.MsgSize = 0
	case TypeMgmt:
		h.ReqType = uint8(1 + r.UintN(numOps-1))
		h.MsgSize = uint32(bodySize[h.ReqType])
		payload = bodySize[h.ReqType] + r.IntN(100)
	}
	return h, payload
}

// TestRoundTrip: what Put writes, Parse reads, for any valid header.
func TestRoundTrip(t *testing.T) { bothVersions(t, testRoundTrip) }

func testRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		want, payload := randomHeader(r)
		token := r.Uint32()
		pkt := packet(want, token, make([]byte, payload))
		got := Header{Type: 9, ReqType: 9, Hold: 9, Flags: 9, Version: 9, PktNum: 9, MsgSize: 9,
			Session: 9, ReqNum: 9}
		if err := got.Parse(pkt); err != nil {
			t.Fatalf("%+v, %d bytes: %v", want, payload, err)
		}
		if got != want || Token(pkt) != token {
			t.Fatalf("got %+v token %#x, want %+v token %#x", got, Token(pkt), want, token)
		}
	}
}

// TestFieldLimits puts each field alone to its largest value, and beyond where the Go
// type is wider than the place on the wire: no field may spill into another.
func TestFieldLimits(t *testing.T) { bothVersions(t, testFieldLimits) }

func testFieldLimits(t *testing.T) {
	zero := Header{Type: TypeResp}
	tests := []struct {
		name string
		in   Header
		want Header
	}{
		{"zero", zero, zero},
		{"reqtype", Header{Type: TypeResp, ReqType: MaxReqType},
			Header{Type: TypeResp, ReqType: MaxReqType}},
		{"hold", Header{Type: TypeResp, Hold: HoldUnknown}, Header{Type: TypeResp, Hold: HoldUnknown}},
		{"flags", Header{Type: TypeResp, Flags: FlagCE | FlagLate},
			Header{Type: TypeResp, Flags: FlagCE | FlagLate}},
		{"pktnum", Header{Type: TypeResp, PktNum: maxPackets() - 1},
			Header{Type: TypeResp, PktNum: maxPackets() - 1}},
		{"msgsize", Header{Type: TypeResp, MsgSize: MaxMsgSize},
			Header{Type: TypeResp, MsgSize: MaxMsgSize}},
		{"session", Header{Type: TypeResp, Session: NoSession - 1},
			Header{Type: TypeResp, Session: NoSession - 1}},
		{"reqnum", Header{Type: TypeResp, ReqNum: maxReqNum()},
			Header{Type: TypeResp, ReqNum: maxReqNum()}},
		{"type too wide", Header{Type: TypeResp | 0xF0}, zero},
		{"flags too wide", Header{Type: TypeResp, Flags: 0xF0}, zero},
		{"msgsize too wide", Header{Type: TypeResp, MsgSize: MaxMsgSize + 1}, zero},
		{"reqnum too wide", Header{Type: TypeResp, ReqNum: maxReqNum() + 1}, zero},
	}
	for _, tt := range tests {
		pkt := packet(tt.in, 0, nil)
		var got Header
		if err := got.Parse(pkt); err != nil || got != tt.want.as() || Token(pkt) != 0 {
			t.Errorf("%s: got %+v, token %#x, %v; want %+v", tt.name, got, Token(pkt), err, tt.want)
		}
	}
}

// TestPutOverwrites: a header written into a used buffer leaves nothing of the old
// one and touches nothing behind it.
func TestPutOverwrites(t *testing.T) {
	h := good(TypeReq)
	clean := packet(h, 5, nil)
	dirty := make([]byte, HeaderSize+8)
	for i := range dirty {
		dirty[i] = 0xFF
	}
	h.Put(dirty, 5)
	if string(dirty[:HeaderSize]) != string(clean) {
		t.Errorf("got % x, want % x", dirty[:HeaderSize], clean)
	}
	for i, x := range dirty[HeaderSize:] {
		if x != 0xFF {
			t.Errorf("byte %d behind the header was written", i)
		}
	}
}

// TestSetToken: only the token field changes.
func TestSetToken(t *testing.T) {
	h := good(TypeReq)
	pkt := packet(h, 0, nil)
	SetToken(pkt, 0xCAFEBABE)
	if want := packet(h, 0xCAFEBABE, nil); string(pkt) != string(want) || Token(pkt) != 0xCAFEBABE {
		t.Errorf("got % x, want % x", pkt, want)
	}
}

// TestSetLoop: only the seven bits of the loop change, and of a loop's number only those count.
func TestSetLoop(t *testing.T) {
	for _, phase := range []uint32{0, KeyPhase} {
		for loop := range 256 {
			h := good(TypeReq)
			h.Session = FirstOf(0x55) | 0xABCDEF | phase
			pkt := packet(h, 7, nil)
			SetLoop(pkt, uint8(loop))
			h.Session = FirstOf(uint8(loop)) | 0xABCDEF | phase
			if want := packet(h, 7, nil); string(pkt) != string(want) {
				t.Errorf("loop %d: got % x, want % x", loop, pkt, want)
			}
		}
	}
}

// TestStrings: every known value has a name of its own, every other one is marked.
func TestStrings(t *testing.T) {
	seen := map[string]bool{}
	name := func(s string, known bool) {
		if unknown := s == "INVALID" || s == "unknown code"; unknown == known || s == "" ||
			known && seen[s] {
			t.Errorf("bad name %q", s)
		}
		seen[s] = true
	}
	for i := range 256 {
		name(Type(i).String(), i <= int(TypeSealed))
		name(Op(i).String(), i > 0 && i < numOps)
		name(Code(i).String(), i < numCodes)
	}
}
