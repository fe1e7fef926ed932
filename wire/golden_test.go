package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew from what the code does")

// goldenPacket is one packet whose bytes are kept in testdata.
type goldenPacket struct {
	name  string
	bytes []byte
}

// spoken is the version of the packets that the tests make without saying one.
var spoken uint8 = Version

// bothVersions runs a test with the packets of each version.
func bothVersions(t *testing.T, test func(t *testing.T)) {
	for _, spoken = range []uint8{OldVersion, Version} {
		t.Run(fmt.Sprint("version ", spoken), test)
	}
}

// as returns h with the version that is spoken if it has none.
func (h Header) as() Header {
	if h.Version == 0 {
		h.Version = spoken
	}
	return h
}

// packet builds a packet that is not checksummed.
func packet(h Header, token uint32, payload []byte) []byte {
	h = h.as()
	b := make([]byte, HeaderSize, HeaderSize+len(payload))
	h.Put(b, token)
	return append(b, payload...)
}

// mgmt builds a sealed management packet with pad bytes of padding.
func mgmt(op Op, session, token uint32, body interface{ Put([]byte) }, pad int) []byte {
	size := bodySize[op]
	h := Header{Type: TypeMgmt, ReqType: uint8(op), MsgSize: uint32(size), Session: session}.as()
	b := make([]byte, HeaderSize+size+pad)
	h.Put(b, token)
	body.Put(b[HeaderSize:])
	SealMgmt(b, token)
	return b
}

var (
	testCookie = [CookieSize]byte{0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7,
		0xC8, 0xC9, 0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF}
	testOffer = Offer{Credits: 32, Slots: 8, MTU: 1472, MaxMessage: 8 << 20, Waiting: 6,
		Features: FeatureChecksum}
	testConnect = Connect{Nonce: 0x1122334455667788, Epoch: 0x99AABBCCDDEEFF00,
		Session: 7, Token: 0xA1B2C3D4, Offer: testOffer}
	testAlive = Alive{Session: 7, Token: 0xA1B2C3D4, Seq: 0x0102030405060708}
)

// goldenPackets returns one packet of each type and of each management operation, and bundles.
func goldenPackets() []goldenPacket {
	const token = 0xDEADBEEF
	second := testConnect
	second.Cookie = testCookie
	reset := Alive{Session: NoSession, Seq: testAlive.Seq}
	req := Header{Type: TypeReq, ReqType: 3, MsgSize: 5, Session: 9, ReqNum: 0x010203040506}
	limits := Header{Type: TypeResp, ReqType: MaxReqType, Hold: HoldUnknown,
		Flags:  FlagCE | FlagLate | MaxCut.Flags(),
		PktNum: maxPackets() - 1, MsgSize: MaxMsgSize, Session: NoSession - 1, ReqNum: maxReqNum()}
	sealed := packet(req, 0, []byte("hello"))
	SetToken(sealed, token^Checksum(sealed, nil))
	extended := mgmt(OpConnect, NoSession, 0, &testConnect, 0)
	extended = AppendExtension(extended, Extension{Type: 7, Value: []byte("known")})
	extended = AppendExtension(extended, Extension{Type: 0xFFFF})
	extended[4] = byte(len(extended) - HeaderSize)
	SealMgmt(extended, 0)
	indexed := AppendExtension(mgmt(OpConnect, FirstOf(2)|NoSession, 0, &testConnect, 0),
		Extension{Type: ExtIndex, Value: binary.LittleEndian.AppendUint32(nil, FirstOf(2)|0x010007)})
	indexed[4] = byte(len(indexed) - HeaderSize)
	SealMgmt(indexed, 0)
	fault := AppendError(nil, &Error{Status: StatusNotFound, Code: CodeApplication, Ran: true,
		Text: []byte("bad"), Details: []byte{1, 2}})
	var refusal [VersionRefusalSize]byte
	(&VersionRefusal{Nonce: testConnect.Nonce, Asked: 1, Least: OldVersion,
		Most: spoken}).Put(refusal[:])
	list := []goldenPacket{
		{"REQ of 5 bytes", packet(req, token, []byte("hello"))},
		{"REQ of 5 bytes, checksummed", sealed},
		{"RFR", packet(Header{Type: TypeRFR, ReqType: 3, MsgSize: 0, Session: 9, ReqNum: 12, PktNum: 4},
			token, nil)},
		{"CR with CE echo", packet(Header{Type: TypeCR, ReqType: 3, Hold: 2, Flags: FlagCE, Session: 9,
			ReqNum: 12, PktNum: 1}, token, nil)},
		{"RESP of 2 bytes", packet(Header{Type: TypeResp, ReqType: 3, Hold: 0x1234, MsgSize: 2,
			Session: 9, ReqNum: 12, PktNum: 3}, token, []byte("ok"))},
		{"REQ with 3 ms left, cut to 1452 bytes", packet(Header{Type: TypeReq, ReqType: 3,
			Hold: TryRemaining(5, 3*time.Millisecond), Flags: Cut(1).Flags(), Session: 9}, token, nil)},
		{"ERR", packet(Header{Type: TypeErr, ReqType: 3, Flags: FlagLate, MsgSize: uint32(len(fault)),
			Session: 9, ReqNum: 12},
			token, fault)},
		{"WAIT that keeps the credit",
			packet(Header{Type: TypeWait, ReqType: 3, Hold: 2, Flags: FlagKeep, Session: 9, ReqNum: 12,
				PktNum: 1}, token, nil)},
		{"PAST", packet(Header{Type: TypePast, ReqType: 3, Hold: 2, Session: 9, ReqNum: 12, PktNum: 1},
			token, nil)},
		{"CANCEL", packet(Header{Type: TypeCancel, ReqType: 3, Session: 9, ReqNum: 12}, token, nil)},
		{"ACK", packet(Header{Type: TypeAck, ReqType: 3, Session: 9, ReqNum: 12, PktNum: 3}, token, nil)},
		{"RESP, every field at its limit", packet(limits, 0xFFFFFFFF, nil)},
		{"RESP of the last session of loop 127", packet(Header{Type: TypeResp, ReqType: 3, MsgSize: 2,
			Session: FirstOf(MaxLoop) + NoSession - 1, ReqNum: 12}, token, []byte("ok"))},
		{"CONNECT, first", mgmt(OpConnect, NoSession, 0, &testConnect, 0)},
		{"CONNECT with cookie, padded by 8", mgmt(OpConnect, NoSession, 0, &second, 8)},
		{"CONNECT with extensions", extended},
		{"CONNECT with the client's index", indexed},
		{"refusal of version 1", refusal[:]},
		{"CHALLENGE", mgmt(OpChallenge, 7, token,
			&Challenge{Nonce: testConnect.Nonce, Cookie: testCookie}, 0)},
		{"ACCEPT", mgmt(OpAccept, 7, token, &Accept{Nonce: testConnect.Nonce, Epoch: 5, Session: 11,
			Token: 0x0BADCAFE, Offer: testOffer}, 0)},
		{"REFUSE", mgmt(OpRefuse, 7, token, &Refuse{Nonce: testConnect.Nonce, Code: CodeExhausted}, 0)},
		{"DISCONNECT", mgmt(OpDisconnect, 9, token, &testAlive, 0)},
		{"DISCONNECTACK", mgmt(OpDisconnectAck, 9, token, &testAlive, 0)},
		{"PING", mgmt(OpPing, 9, token, &testAlive, 0)},
		{"PING of loop 3 to loop 2", mgmt(OpPing, FirstOf(2)+9, token,
			&Alive{Session: FirstOf(3) + 7, Token: testAlive.Token, Seq: testAlive.Seq}, 0)},
		{"PONG", mgmt(OpPong, 9, token, &testAlive, 0)},
		{"RESET", mgmt(OpReset, 9, token, &reset, 0)},
		{"MOVED", mgmt(OpMoved, 9, token, &reset, 0)},
		{"DRAIN", mgmt(OpDrain, 9, token, &testAlive, 0)},
		{"DRAINACK", mgmt(OpDrainAck, 9, token, &testAlive, 0)},
		{"CRYPTO", mgmt(OpCrypto, NoSession, 0,
			&Crypto{Nonce: testConnect.Nonce, Offset: 1300, Ack: 257}, 8)},
		{"OPEN", mgmt(OpOpen, NoSession, 0, &testConnect, 8)},
		{"NOKEYS to loop 2", mgmt(OpNoKeys, FirstOf(2)|NoSession, 0,
			&NoKeys{Quote: [QuoteSize]byte(sealedPacket(0))}, 0)},
		{"SEALED, the clear part of 40 bytes", sealedPacket(0)},
		{"SEALED, with an odd key phase, to loop 127", sealedPacket(KeyPhase | FirstOf(MaxLoop))},
		{"BUNDLE of one", bundle(inside{token: token,
			Header: Header{Type: TypeAck, ReqType: 3, Session: 9, ReqNum: 12}})},
		{"BUNDLE of two sessions of loop 2", bundle(
			inside{req.of(FirstOf(2) + 9), token, []byte("hello")},
			inside{req.of(FirstOf(2) + 10), token + 1, []byte("there")})},
		{"BUNDLE of all types, checksummed and padded by 3", goldenBundle(token, req, fault)},
	}
	if spoken == OldVersion {
		return list
	}
	gap := Header{Type: TypeCR, Flags: FlagGap, MsgSize: 8, Session: 9, ReqNum: 12, PktNum: 0xA1234}
	holes := AppendHole(AppendHole(nil, 0xA1234, 1), 0xFF000, MaxHole)
	return append(list, goldenPacket{"CR with two holes", packet(gap, token, holes)},
		goldenPacket{"WAIT with a host delay", packet(Header{Type: TypeWait, Hold: 2,
			ReqType: HostDelay(3 * time.Millisecond), Session: 9, ReqNum: 12}, token, nil)},
		goldenPacket{"BUNDLE of a CR with two holes", bundle(inside{gap, token, holes})})
}

// maxPackets and maxReqNum are MaxPackets and MaxReqNum of the version that is spoken.
func maxPackets() uint32 {
	if spoken == OldVersion {
		return OldMaxPackets
	}
	return MaxPackets
}

func maxReqNum() uint64 {
	if spoken == OldVersion {
		return OldMaxReqNum
	}
	return MaxReqNum
}

// sealedPacket returns a datagram that looks like a sealed one; the field's bits are set beside an
// index.
func sealedPacket(field uint32) []byte {
	b := AppendSealed(nil, 0x01020304050607, field|0xA10003)
	for len(b) < 40 {
		b = append(b, byte(len(b)))
	}
	return b
}

// of returns h with another session field.
func (h Header) of(session uint32) Header {
	h.Session = session
	return h
}

// goldenBundle returns a checksummed bundle of three sessions, with a packet of each type.
func goldenBundle(token uint32, req Header, fault []byte) []byte {
	at := func(h Header, session uint32) inside {
		h.ReqType, h.Session, h.ReqNum = 3, session, 12
		return inside{h, token + session - 9, nil}
	}
	hello := inside{req, token, []byte("hello")}
	long := inside{req, token, []byte("four")} // and a byte follows
	resp := at(Header{Type: TypeResp, Hold: 0x1234, MsgSize: 2}, 10)
	part := at(Header{Type: TypeResp, Hold: 7, Flags: FlagCE | FlagLate, MsgSize: 5000, PktNum: 3}, 10)
	resp.payload, part.payload = []byte("ok"), []byte("part")
	e := at(Header{Type: TypeErr, Flags: FlagLate, MsgSize: uint32(len(fault))}, 11)
	e.payload = fault
	pkt := bundle(hello, long, resp, part, e,
		at(Header{Type: TypeRFR, MsgSize: 1, PktNum: 4}, 9),
		at(Header{Type: TypeCR, Hold: 2, Flags: FlagCE, PktNum: 1}, 9),
		at(Header{Type: TypeWait, Hold: 2, Flags: FlagKeep, PktNum: 1}, 9),
		at(Header{Type: TypePast, Hold: 2}, 9), at(Header{Type: TypeCancel}, 9),
		at(Header{Type: TypeAck, PktNum: 3}, 9))
	pkt = append(pkt, 1, 2, 3)
	SetToken(pkt, token^Checksum(pkt, nil))
	return pkt
}

// TestGolden compares every kind of packet with the bytes kept in testdata: a
// change there is a change of the protocol and wants a new Version.
func TestGolden(t *testing.T) { bothVersions(t, testGolden) }

func testGolden(t *testing.T) {
	var got bytes.Buffer
	for _, g := range goldenPackets() {
		fmt.Fprintf(&got, "# %s, %d bytes\n", g.name, len(g.bytes))
		for off := 0; off < len(g.bytes); off += 8 {
			fmt.Fprintf(&got, "%3d  % x\n", off, g.bytes[off:min(off+8, len(g.bytes))])
		}
	}
	file := filepath.Join("testdata", fmt.Sprint("packets", spoken, ".golden"))
	if *rewrite {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout may have turned line ends round.
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the bytes on the wire changed; if that is meant, change Version and run "+
			"go test ./wire -rewrite.\ngot:\n%s\nwant:\n%s", &got, want)
	}
}

// TestGoldenCoversAll keeps the list above complete when types or operations are added.
func TestGoldenCoversAll(t *testing.T) { bothVersions(t, testGoldenCoversAll) }

func testGoldenCoversAll(t *testing.T) {
	var types [TypeSealed + 1]bool
	var ops [numOps]bool
	for _, g := range goldenPackets() {
		var h Header
		if new(VersionRefusal).Parse(g.bytes) {
			continue // of no version
		}
		if IsSealed(g.bytes) {
			types[TypeSealed] = true
			continue
		}
		if IsBundle(g.bytes) {
			types[TypeBundle] = new(Bundle).Parse(g.bytes) == nil
			continue
		}
		if err := h.Parse(g.bytes); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		types[h.Type] = true
		if h.Type == TypeMgmt {
			ops[h.ReqType] = true
		}
	}
	for i, seen := range types {
		if !seen {
			t.Errorf("no golden packet of type %v", Type(i))
		}
	}
	for i, seen := range ops {
		if i > 0 && !seen {
			t.Errorf("no golden packet of operation %v", Op(i))
		}
	}
}

// TestHandWritten compares with bytes that were laid out by hand from the table
// in doc.go, so that the golden file cannot merely repeat a mistake of the code.
func TestHandWritten(t *testing.T) {
	spoken = OldVersion
	defer func() { spoken = Version }()
	var refusal [VersionRefusalSize]byte
	(&VersionRefusal{Nonce: 0x0807060504030201, Asked: 7, Least: 2, Most: 3}).Put(refusal[:])
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"response header", packet(Header{Type: TypeResp, ReqType: 0x2A, Hold: 0x1234,
			Flags:  FlagCE | Cut(2).Flags(),
			PktNum: 0xBEEF, MsgSize: 0x0ABCDEF, Session: 0x112233, ReqNum: 0x0A0B0C0D0E0F}, 0x55667788, nil),
			"23" + "2a" + "3412" + "efcdab90" + "33221100" + "88776655" + "0f0e0d0c0b0a" + "efbe"},
		{"request header", packet(Header{Type: TypeReq, ReqType: 1, PktNum: 2, MsgSize: 3, Session: 4,
			ReqNum: 5}, 6, nil),
			"20" + "01" + "0000" + "03000000" + "04000000" + "06000000" + "050000000000" + "0200"},
		{"request header, loop 0x44", packet(Header{Type: TypeReq, ReqType: 1,
			Session: FirstOf(0x44) + 0x332211}, 6, nil),
			"20" + "01" + "0000" + "00000000" + "112233" + "44" + "06000000" + "000000000000" + "0000"},
		{"connect body", mgmt(OpConnect, NoSession, 0, &testConnect, 0)[HeaderSize:],
			"8877665544332211" + "00ffeeddccbbaa99" + "07000000" + "d4c3b2a1" +
				"00008000" + "2000" + "0800" + "01000000" + "0600" + "0000" + "c0050000" + "00000000" +
				"00000000000000000000000000000000"},
		{"error", AppendError(nil, &Error{Status: StatusAborted, Code: CodePanic, Ran: true,
			Text: []byte("ab"), Details: []byte("c")}),
			"0a" + "07" + "01" + "00" + "0200" + "0000" + "6162" + "63"},
		{"error that did not run", AppendError(nil, &Error{Status: StatusUnavailable,
			Code: CodeShutdown}), "0e" + "04" + "00" + "00" + "0000" + "0000"},
		{"request with 3 ms left, in packets of 1232 bytes", packet(Header{Type: TypeReq,
			Hold: TryRemaining(5, 3*time.Millisecond), Flags: FlagQuiet | Cut(2).Flags(),
			MsgSize: 3, Session: 4, ReqNum: 5}, 6, nil),
			"20" + "00" + "053e" + "030000a0" + "04000000" + "06000000" + "050000000000" + "0000"},
		{"late error header", packet(Header{Type: TypeErr, ReqType: 1, Hold: 0x1234,
			Flags: FlagLate, MsgSize: 8, Session: 4, ReqNum: 5, PktNum: 2}, 6, nil),
			"25" + "01" + "3412" + "08000020" + "04000000" + "06000000" + "050000000000" + "0200"},
		{"wait", packet(Header{Type: TypeWait, Hold: TryHold(5, 3*1024), Flags: FlagCE | FlagKeep,
			Session: 4, ReqNum: 5, PktNum: 2}, 6, nil),
			"26" + "00" + "c500" + "00000030" + "04000000" + "06000000" + "050000000000" + "0200"},
		{"ack", packet(Header{Type: TypeAck, Session: 4, ReqNum: 5, PktNum: 2}, 6, nil),
			"29" + "00" + "0000" + "00000000" + "04000000" + "06000000" + "050000000000" + "0200"},
		{"drain", mgmt(OpDrain, 9, 0, &Alive{Session: 1, Token: 2, Seq: 3, To: 4}, 0)[HeaderSize:],
			"01000000" + "02000000" + "0300000000000000" + "04000000" + "00000000"},
		{"extension", AppendExtension(nil, Extension{Type: 0x0102, Value: []byte("ab")}),
			"0201" + "0200" + "6162"},
		{"refusal of a version", refusal[:],
			"04" + "00" + "0000" + "00000000" + "ffffff00" + hex.EncodeToString(refusal[12:16]) +
				"0000000000000000" + "0102030405060708" + "07" + "02" + "03" + "0000000000"},
		{"clear part of a sealed datagram", AppendSealed(nil, 0x0A0B0C0D0E0F10, 0x44332211),
			"3b" + "100f0e0d0c0b0a" + "112233" + "44"},
		{"the same of an odd key phase", AppendSealed(nil, 1, 0x44332211|KeyPhase),
			"3b" + "01000000000000" + "112233" + "c4"},
		{"index", AppendExtension(nil, Extension{Type: ExtIndex, Value: []byte{1, 2, 3, 4}}),
			"0200" + "0400" + "01020304"},
		{"refuse body", mgmt(OpRefuse, 7, 0, &Refuse{Nonce: 1, Code: CodeShutdown}, 0)[HeaderSize:],
			"0100000000000000" + "04" + "00000000000000"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestChecksumKnownAnswer holds Checksum to the check value of CRC-32C ("123456789"
// gives E3069283) and the 32 zero bytes of RFC 3720 appendix B.4 (8A9136AA).
func TestChecksumKnownAnswer(t *testing.T) {
	// The token field is left out, so a header of zeros plus 12 more is 32 zeros.
	for _, token := range []uint32{0, 0xFFFFFFFF, 0x12345678} {
		b := make([]byte, 36)
		SetToken(b, token)
		if got := Checksum(b, nil); got != 0x8A9136AA {
			t.Errorf("32 zero bytes, token %#x: got %#x", token, got)
		}
	}
	// The text goes around the token field.
	text := []byte("0123456789abcdefghijKLMNOP")
	pkt := append(append(append([]byte(nil), text[:12]...), "TOKN"...), text[12:]...)
	if got, want := Checksum(pkt, nil), slowCRC(text); got != want {
		t.Errorf("got %#x, bitwise CRC gives %#x", got, want)
	}
	if got := slowCRC([]byte("123456789")); got != 0xE3069283 {
		t.Fatalf("the bitwise CRC of this test is wrong: %#x", got)
	}
}

// slowCRC is CRC-32C bit by bit, from the polynomial 1EDC6F41 (reflected 82F63B78).
func slowCRC(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82F63B78&-(c&1)
		}
	}
	return ^c
}
