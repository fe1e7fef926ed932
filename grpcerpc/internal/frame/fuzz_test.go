package frame

import (
	"bytes"
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

// TestRoundTrip: what is written is read again; no part of it is a message.
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
	x := Exchange{Token: 1, Stream: 2, Seq: 3, Limit: 4, Cancel: true, Open: &sampleHead,
		Frames: []byte("f")}
	gotX, err := ParseExchange(x.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	same(t, gotX, x)
	for _, y := range []Reply{
		{Seq: 1, Limit: 2, Frames: []byte("f")},
		{Gone: true, NotRun: true, Status: Status{Code: 1, Text: "t"}},
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

// FuzzExchange: exchanges, replies and their frames.
func FuzzExchange(f *testing.F) {
	trailers := AppendTrailers(nil, &Status{Code: 2}, sampleMD)
	x := Exchange{Open: &sampleHead, Frames: AppendFrame(nil, Trailers, trailers)}
	f.Add(x.Append(nil))
	f.Add((&Reply{Frames: AppendFrame(nil, Message, []byte{3, 'a', 'b', 'c'})}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var frames []byte
		if x, err := ParseExchange(b); err == nil {
			frames = x.Frames
			if _, err := ParseExchange(x.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if y, err := ParseReply(b); err == nil && frames == nil {
			frames = y.Frames
		}
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
	})
}

func FuzzHello(f *testing.F) {
	f.Add((&Hello{Version: Version, UserAgent: "u"}).Append(nil))
	f.Add((&Welcome{Version: Version, Refusal: "r"}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseHello(b)
		_, _ = ParseWelcome(b)
	})
}
