package frame

import (
	"bytes"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"testing"
)

var sampleMD = map[string][]string{"a": {"1", "2"}, "b-bin": {"\x00\xff"}}

var sampleHead = Head{Method: []byte("/s/m"), MD: sampleMD, Compressor: []byte("gzip"),
	Subtype: []byte("json"), Timeout: 5}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// TestRoundTrip: a frame that is written is read again; no part of it is a message.
func TestRoundTrip(t *testing.T) {
	token := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	unary := sampleHead.Append(token)
	got, head, message, err := ParseUnary(append(unary, "message"...))
	if err != nil || got != 0x0807060504030201 || string(message) != "message" {
		t.Fatal(got, message, err)
	}
	same(t, head, sampleHead)
	for i := range unary {
		if _, _, _, err := ParseUnary(unary[:i]); err == nil {
			t.Errorf("%d of %d bytes are a call", i, len(unary))
		}
	}
	for _, a := range []Answer{
		{Message: []byte("x")},
		{Header: sampleMD, Trailer: sampleMD, Compressed: true, Message: []byte("x")},
		{Status: Status{Code: 5, Text: "t", Details: []byte("d")}, NotRun: true, Message: []byte{}},
	} {
		got, err := ParseAnswer(append(a.AppendHead(nil), a.Message...))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, a)
	}
	sec := Section{Stream: 2, Limit: 4, End: true, NotRun: true, Open: &sampleHead,
		Frames: []byte("f")}
	gotSec, rest, err := NextSection(append(sec.Append(nil), "rest"...))
	if err != nil || string(rest) != "rest" {
		t.Fatal(rest, err)
	}
	same(t, gotSec, sec)
	x := Exchange{Token: 1, Seq: 3, Sections: sec.Append(nil)}
	gotX, err := ParseExchange(x.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, gotX, x)
	for _, y := range []Reply{
		{Seq: 1, Sections: []byte("s")}, {Gone: true, Status: Status{Code: 1, Text: "t"}},
		{Gone: true, Status: Status{Code: 1, Text: "t", Details: []byte("d")}, Untaken: true},
	} {
		got, err := ParseReply(y.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, y)
	}
	h := Hello{Version: Version, UserAgent: "u", Authority: "a"}
	gotH, err := ParseHello(h.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, gotH, h)
	w := Welcome{Version: 1, Token: 2, Refusal: "r"}
	gotW, err := ParseWelcome(w.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, gotW, w)
}

// TestLengths: frames whose length is written behind them are read again.
func TestLengths(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 1 << 14, 1 << 21, 1<<21 + 5} {
		b := BeginFrames((&Section{Stream: 7, Limit: 9}).AppendHead(nil))
		from := len(b)
		b = append(b, make([]byte, n)...)
		EndFrames(b, from)
		s, rest, err := NextSection(append(b, 'x'))
		if err != nil || len(s.Frames) != n || string(rest) != "x" || s.Stream != 7 || s.Limit != 9 {
			t.Errorf("%d bytes: %d, %d left, %v", n, len(s.Frames), len(rest), err)
		}
	}
}

// TestBadMD: keys that gRPC does not allow do not pass.
func TestBadMD(t *testing.T) {
	for _, k := range []string{"", "A", ":path", "te", "a b", "ä", "\x00"} {
		b := AppendBytes(AppendBytes([]byte{1}, k), "v")
		if md, err := ParseHeaders(b); err == nil {
			t.Errorf("%q passed: %v", k, md)
		}
	}
	if _, err := ParseHeaders([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 'a', 0}); err == nil {
		t.Error("a huge count passed")
	}
}

func FuzzUnary(f *testing.F) {
	f.Add(sampleHead.Append(make([]byte, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		token, h, message, err := ParseUnary(b)
		if err != nil {
			return
		}
		again := append(h.Append(slices.Clone(b[:8])), message...)
		token2, h2, message2, err := ParseUnary(again)
		if err != nil || token2 != token || !bytes.Equal(h.Method, h2.Method) ||
			!maps.EqualFunc(h.MD, h2.MD, slices.Equal) || !bytes.Equal(message, message2) {
			t.Fatalf("%+v became %+v, %v", h, h2, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	a := Answer{Header: sampleMD, Trailer: sampleMD, Status: Status{Code: 3}}
	f.Add(a.AppendHead(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAnswer(b)
		if err != nil {
			return
		}
		if _, err := ParseAnswer(a.AppendHead(nil)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzExchange: exchanges, replies, their sections and frames.
func FuzzExchange(f *testing.F) {
	trailers := AppendTrailers(nil, &Status{Code: 2}, sampleMD)
	s := Section{Open: &sampleHead, Frames: AppendFrame(nil, Trailers, trailers)}
	x := Exchange{Sections: s.Append(s.Append(nil))}
	f.Add(x.Append(nil))
	s.Open, s.Frames = nil, AppendFrame(nil, Message, []byte{3, 'a', 'b', 'c'})
	f.Add((&Reply{Sections: s.Append(nil)}).Append(nil))
	f.Add((&Reply{Gone: true, Status: Status{Code: 3}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := ParseExchange(b); err == nil {
			if _, err := ParseExchange(x.Append(nil)); err != nil {
				t.Fatal(err)
			}
			readSections(t, x.Sections)
		}
		if y, err := ParseReply(b); err == nil {
			if _, err := ParseReply(y.Append(nil)); err != nil {
				t.Fatal(err)
			}
			readSections(t, y.Sections)
		}
	})
}

func readSections(t *testing.T, b []byte) {
	for len(b) > 0 {
		s, rest, err := NextSection(b)
		if err != nil {
			return
		}
		if len(rest) >= len(b) {
			t.Fatal("no progress")
		}
		if again, _, err := NextSection(s.Append(nil)); err != nil || again.Stream != s.Stream {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
		b = rest
		readFrames(t, s.Frames)
	}
}

func readFrames(t *testing.T, frames []byte) {
	for len(frames) > 0 {
		kind, payload, rest, err := Next(frames)
		if err != nil {
			return
		}
		if len(rest) >= len(frames) {
			t.Fatal("no progress")
		}
		frames = rest
		switch kind {
		case Headers:
			_, _ = ParseHeaders(payload)
		case Trailers:
			_, _, _ = ParseTrailers(payload)
		case Message, Compressed:
			if size, first, err := ParseMessage(payload); err == nil && uint64(len(first)) > size {
				t.Fatal("more than there is")
			}
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add((&Hello{Version: Version, UserAgent: "u"}).Append(nil))
	f.Add((&Welcome{Version: Version, Refusal: "r"}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseHello(b)
		_, _ = ParseWelcome(b)
	})
}

// TestPairs: metadata has a bounded number of pairs, however short they are.
func TestPairs(t *testing.T) {
	for n, ok := range map[int]bool{maxPairs: true, maxPairs + 1: false} {
		b := binary.AppendUvarint(nil, uint64(n))
		b = append(b, bytes.Repeat([]byte{1, 'a', 0}, n)...)
		if md, err := ParseHeaders(b); (err == nil) != ok || len(md["a"]) != n*len(md) {
			t.Errorf("%d pairs: %d values, %v", n, len(md["a"]), err)
		}
	}
}
