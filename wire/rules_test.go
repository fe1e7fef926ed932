package wire

import "testing"

// TestFlagsByType tries all flags with each type, against masks that were written by hand: CE is 1,
// the second flag 2, the cut 4 and 8.
func TestFlagsByType(t *testing.T) { bothVersions(t, testFlagsByType) }

func testFlagsByType(t *testing.T) {
	allowed := map[Type]Flags{
		TypeReq: 14, TypeRFR: 12, TypeCR: 15, TypeResp: 15, TypeMgmt: 0, TypeErr: 14, TypeWait: 15,
		TypePast: 0, TypeCancel: 0, TypeAck: 0,
	}
	if len(allowed) != numTypes {
		t.Fatalf("%d types", len(allowed))
	}
	for typ, mask := range allowed {
		for flags := range Flags(16) {
			h, payload := least(typ)
			h.Flags = flags
			var got Header
			err := got.Parse(packet(h, 1, make([]byte, payload)))
			if flags&^mask == 0 && (err != nil || got != h) || flags&^mask != 0 && err != ErrFlags {
				t.Errorf("%v, flags %04b: %v, %+v", typ, flags, err, got)
			}
		}
	}
}

// least returns a header of each type, and its least payload.
func least(typ Type) (h Header, payload int) {
	h = good(typ)
	switch typ {
	case TypeMgmt:
		payload = AliveSize
	case TypeErr:
		h.MsgSize, payload = 8, 8
	case TypeWait, TypePast, TypeCancel, TypeAck:
		h.MsgSize = 0
	}
	return h, payload
}

// TestRulesOfAllTypes: packets of data, control packets and errors need a session and a request
// type of the application.
func TestRulesOfAllTypes(t *testing.T) { bothVersions(t, testRulesOfAllTypes) }

func testRulesOfAllTypes(t *testing.T) {
	for typ := range Type(numTypes) {
		if typ == TypeMgmt {
			continue
		}
		for want, change := range map[error]func(*Header){
			ErrReqType: func(h *Header) { h.ReqType = 255 },
			ErrSession: func(h *Header) { h.Session = NoSession },
		} {
			h, payload := least(typ)
			pkt := packet(h, 1, make([]byte, payload))
			if err := new(Header).Parse(pkt); err != nil {
				t.Errorf("%v: %v", typ, err)
			}
			change(&h)
			if spoken != OldVersion && want == ErrReqType && h.answers() {
				want = nil // it is the host delay
			}
			h.Put(pkt, 1)
			if err := new(Header).Parse(pkt); err != want {
				t.Errorf("%v: %v, want %v", typ, err, want)
			}
		}
	}
}

// TestSizesByType: what stands in msgsize, and what follows the header.
func TestSizesByType(t *testing.T) { bothVersions(t, testSizesByType) }

func testSizesByType(t *testing.T) {
	type sizes struct{ msg, payload int }
	good := map[Type][]sizes{
		TypeReq: {{0, 0}, {9, 9}, {9, 0}}, TypeResp: {{0, 0}, {9, 9}, {9, 0}},
		TypeRFR: {{0, 0}, {7, 0}}, TypeCR: {{0, 0}, {7, 0}},
		TypeErr: {{8, 8}, {1000, 1000}}, TypeWait: {{0, 0}}, TypePast: {{0, 0}},
		TypeCancel: {{0, 0}}, TypeAck: {{0, 0}},
	}
	bad := map[Type][]sizes{
		TypeReq: {{0, 1}, {8, 9}}, TypeResp: {{0, 1}, {8, 9}},
		TypeRFR: {{0, 1}, {1, 1}}, TypeCR: {{0, 1}, {1, 1}},
		TypeErr:  {{0, 0}, {7, 7}, {9, 8}, {8, 9}, {1001, 1001}, {8, 0}, {0, 8}},
		TypeWait: {{1, 0}, {0, 1}, {1, 1}}, TypePast: {{1, 0}, {0, 1}, {1, 1}},
		TypeCancel: {{1, 0}, {0, 1}, {1, 1}}, TypeAck: {{1, 0}, {0, 1}, {1, 1}},
	}
	for want, table := range map[error]map[Type][]sizes{nil: good, ErrSize: bad} {
		if len(table) != numTypes-1 {
			t.Fatalf("%d types", len(table))
		}
		for typ, list := range table {
			for _, s := range list {
				h := Header{Type: typ, MsgSize: uint32(s.msg)}
				var got Header
				if err := got.Parse(packet(h, 1, make([]byte, s.payload))); err != want {
					t.Errorf("%v of %d bytes, %d follow: %v", typ, s.msg, s.payload, err)
				}
			}
		}
	}
	for op := Op(1); op < numOps; op++ {
		size := map[Op]int{OpConnect: 64, OpChallenge: 24, OpAccept: 48, OpRefuse: 16, OpCrypto: 16,
			OpOpen: 64}[op]
		if size == 0 {
			size = 24
		}
		for n, want := range map[int]error{size - 1: ErrSize, size: nil, size + 1: nil} {
			h := Header{Type: TypeMgmt, ReqType: uint8(op), MsgSize: uint32(n)}
			if err := new(Header).Parse(packet(h, 1, make([]byte, n))); err != want {
				t.Errorf("%v of %d bytes: %v", op, n, err)
			}
		}
	}
}

// TestNumbers holds the numbers on the wire to names that were written by hand: those of gRPC for
// statuses.
func TestNumbers(t *testing.T) {
	types := []string{"REQ", "RFR", "CR", "RESP", "MGMT", "ERR", "WAIT", "PAST", "CANCEL", "ACK",
		"BUNDLE", "SEALED", "INVALID"}
	for i, name := range types {
		if Type(i).String() != name {
			t.Errorf("type %d is %v, want %s", i, Type(i), name)
		}
	}
	ops := []string{"INVALID", "CONNECT", "CHALLENGE", "ACCEPT", "REFUSE", "DISCONNECT",
		"DISCONNECTACK", "PING", "PONG", "RESET", "MOVED", "DRAIN", "DRAINACK", "CRYPTO", "OPEN",
		"NOKEYS", "INVALID"}
	for i, name := range ops {
		if Op(i).String() != name {
			t.Errorf("operation %d is %v, want %s", i, Op(i), name)
		}
	}
	statuses := []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
		"NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
		"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "INVALID"}
	for i, name := range statuses {
		if Status(i).String() != name {
			t.Errorf("status %d is %v, want %s", i, Status(i), name)
		}
	}
	codes := []struct{ text, status string }{
		{"ok", "OK"}, {"no handler", "UNIMPLEMENTED"}, {"too large", "RESOURCE_EXHAUSTED"},
		{"resource exhausted", "RESOURCE_EXHAUSTED"}, {"shutting down", "UNAVAILABLE"},
		{"application error", "UNKNOWN"}, {"bad offer", "FAILED_PRECONDITION"},
		{"handler panicked", "INTERNAL"}, {"cancelled", "CANCELLED"},
		{"deadline exceeded", "DEADLINE_EXCEEDED"}, {"response forgotten", "DATA_LOSS"},
		{"security demanded by one side only", "FAILED_PRECONDITION"},
		{"identity refused", "UNAUTHENTICATED"}, {"unknown code", "UNKNOWN"},
	}
	for i, c := range codes {
		if got := Code(i); got.String() != c.text || got.Status().String() != c.status {
			t.Errorf("code %d is %v with status %v, want %v", i, got, got.Status(), c)
		}
	}
	for i, s := range []Status{StatusOK, StatusCancelled, StatusUnknown, StatusInvalidArgument,
		StatusDeadlineExceeded, StatusNotFound, StatusAlreadyExists, StatusPermissionDenied,
		StatusResourceExhausted, StatusFailedPrecondition, StatusAborted, StatusOutOfRange,
		StatusUnimplemented, StatusInternal, StatusUnavailable, StatusDataLoss,
		StatusUnauthenticated} {
		if int(s) != i {
			t.Errorf("%v is %d, want %d", s, s, i)
		}
	}
}
