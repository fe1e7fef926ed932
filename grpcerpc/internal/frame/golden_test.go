package frame

import (
	"encoding/hex"
	"strings"
	"testing"
)

// golden returns bytes of hexadecimal text with spaces.
func golden(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden: the bytes of messages of version 3. What is empty takes no place where a flag can say
// so.
func TestGolden(t *testing.T) {
	md := map[string][]string{"k": {"v"}}
	method := []byte("/s/m")
	for _, v := range []struct {
		name string
		got  []byte
		want string
	}{
		{"hello", (&Hello{Version: 3, UserAgent: "u", Authority: "a"}).Append(nil), "03 0175 0161"},
		{"hello with all", (&Hello{Version: 3, UserAgent: "u", Authority: "a",
			Accept: "c"}).Append(nil), "03 0175 0161 0163"},
		{"welcome with all", (&Welcome{Version: 3, Token: 1, MaxCalls: 2, MaxHeaders: 300}).Append(nil),
			"03 0100000000000000 00 02 ac02"},
		{"welcome", (&Welcome{Version: 3, Token: 1}).Append(nil), "03 0100000000000000 00"},
		{"refusal", (&Welcome{Version: 3, Refusal: "r"}).Append(nil), "03 0000000000000000 0172"},
		{"head", (&Head{Method: method}).Append(nil), "00 042f732f6d"},
		{"head, empty parts", (&Head{Method: method, MD: map[string][]string{}, Compressor: []byte{},
			Subtype: []byte{}}).Append(nil), "00 042f732f6d"},
		{"head with all", (&Head{Method: method, MD: md, Compressor: []byte("c"),
			Subtype: []byte("t"), Timeout: 5, Authority: []byte("a")}).Append(nil),
			"1f 042f732f6d 01 016b 0176 0163 0174 05 0161"},
		{"head with a byte each", (&Head{Method: []byte("m"), Compressor: []byte("c")}).Append(nil),
			"02 016d 0163"},
		{"answer", (&Answer{Message: []byte("x")}).AppendHead(nil), "00"},
		{"answer, empty metadata", (&Answer{Header: map[string][]string{},
			Trailer: map[string][]string{}}).AppendHead(nil), "00"},
		{"answer with all", (&Answer{Header: md, Trailer: md, Compressed: true, NotRun: true,
			Status: Status{Code: 2, Text: "t", Details: []byte("d")}}).AppendHead(nil),
			"1f 01 016b 0176 01 016b 0176 02 0174 0164"},
		{"answer by another compressor", (&Answer{Compressed: true, Encoding: "c"}).AppendHead(nil),
			"28 0163"},
		{"exchange", (&Exchange{Token: 2, Seq: 3, Sections: []byte("s")}).Append(nil),
			"0200000000000000 03 73"},
		{"reply", (&Reply{Seq: 3, Sections: []byte("s")}).Append(nil), "00 03 73"},
		{"gone", (&Reply{Gone: true, Status: Status{Code: 14, Text: "t"}}).Append(nil),
			"01 0e 0174 00"},
		{"untaken", (&Reply{Gone: true, Status: Status{Code: 14, Text: "t"}, Untaken: true}).Append(nil),
			"01 0e 0174 00 01"}, // what follows the status is ignored by those who do not know it
		{"section", (&Section{Stream: 1, Limit: 300, Frames: []byte("f")}).Append(nil),
			"00 01 ac02 0166"},
		{"section with all", (&Section{Stream: 1, Open: &Head{Method: []byte("m")}, End: true,
			NotRun: true}).Append(nil), "07 01 00 00 016d 00"},
		{"frame", AppendFrame(nil, More, []byte("p")), "04 0170"},
		{"trailers", AppendTrailers(nil, &Status{Code: 1}, md), "01 00 00 01 016b 0176"},
	} {
		if want := golden(t, v.want); string(v.got) != string(want) {
			t.Errorf("%s: %x, want %x", v.name, v.got, want)
		}
	}
}

// TestEdges: the first and last of what may be is read, what lies beyond is not.
func TestEdges(t *testing.T) {
	for k := range 256 {
		_, _, _, err := Next([]byte{byte(k), 0})
		if ok := Headers <= Kind(k) && Kind(k) <= Encoding; ok != (err == nil) {
			t.Errorf("frame of kind %d: %v", k, err)
		}
		_, _, err = NextSection([]byte{byte(k) &^ sectionOpen, 1, 0, 0})
		if ok := k < 8; ok != (err == nil) {
			t.Errorf("section with flags %#x: %v", k, err)
		}
		_, err = ParseReply([]byte{byte(k), 1, 0, 0})
		if ok := k <= replyGone; ok != (err == nil) {
			t.Errorf("reply that begins with %d: %v", k, err)
		}
	}
	for _, v := range []struct {
		name string
		text string
		ok   bool
		read func([]byte) error
	}{
		{"trailers", "00 00 00 00", true, trailers}, {"and a byte", "00 00 00 00 00", false, trailers},
		{"headers", "00", true, headers}, {"and a byte", "00 00", false, headers},
		{"message", "01 61", true, message}, {"more than its size", "01 61 62", false, message},
		{"empty message", "00", true, message},
		{"8 bytes of token", "0000000000000000 00", true, exchange},
		{"7", "00000000000000", false, exchange},
		{"gone with success", "01 00 00 00", false, reply},
		{"not run with success", "10", false, answer}, {"not run", "14 01 00 00", true, answer},
		{"flag beyond", "20", false, answer},
		{"welcome", "03 0000000000000000 00", true, welcome},
		{"other version", "04", true, hello}, {"cut short", "03", false, hello},
		{"head's flag beyond", "0000000000000000 10 0161", false, unary},
		{"no flag", "0000000000000000 00 0161", true, unary},
		{"text beyond the end", "00 02 61", false, headers},
	} {
		if err := v.read(golden(t, v.text)); (err == nil) != v.ok {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	token := NewReader([]byte{1, 2, 3, 4, 5, 6, 7, 8}) // all that Life and Leave have
	if v := token.Fixed(); v != 0x0807060504030201 || !token.OK() {
		t.Errorf("a token alone: %#x", v)
	}
	st := Status{Details: []byte{}}
	r := NewReader(st.Append(nil))
	if got := r.Status(); got.Details != nil || !r.OK() {
		t.Errorf("a status without details: %+v", got)
	}
}

func trailers(b []byte) error { _, _, err := ParseTrailers(b); return err }
func headers(b []byte) error  { _, err := ParseHeaders(b); return err }
func message(b []byte) error  { _, _, err := ParseMessage(b); return err }
func exchange(b []byte) error { _, err := ParseExchange(b); return err }
func reply(b []byte) error    { _, err := ParseReply(b); return err }
func answer(b []byte) error   { _, err := ParseAnswer(b); return err }
func welcome(b []byte) error  { _, err := ParseWelcome(b); return err }
func hello(b []byte) error    { _, err := ParseHello(b); return err }
func unary(b []byte) error    { _, _, _, err := ParseUnary(b); return err }

// TestAccepted: of a Hello's compressors count the first 16 that have names, without the rest.
func TestAccepted(t *testing.T) {
	long := strings.Repeat("n", 64)
	many := strings.Repeat("n,", 16)
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip,x-y.Z_1": "gzip,x-y.Z_1", strings.Repeat(",", 16<<10): "",
		",,a,,b,": "a,b", "a b,c\x00,\xff,d": "d", "a, b": "a", long: long, long + "n,b": "b",
		many + "last": many[:31],
	} {
		h := Hello{Accept: accept}
		if got := strings.Join(h.Accepted(), ","); got != want {
			t.Errorf("%.40q: %q, want %q", accept, got, want)
		}
	}
}
