package wire

import (
	"bytes"
	"strings"
	"testing"
)

// TestAppendError: what was said comes back; long text and details are cut, never refused.
func TestAppendError(t *testing.T) {
	prefix := []byte("before")
	for _, n := range []int{0, 1, MaxErrorText, MaxErrorText + 1, 5000} {
		for _, m := range []int{0, 3, MaxErrorDetails, MaxErrorDetails + 1} {
			in := Error{Status: StatusUnauthenticated, Code: CodePanic, Ran: n&1 != 0,
				Text: bytes.Repeat([]byte("t"), n), Details: bytes.Repeat([]byte("d"), m)}
			b := AppendError(prefix, &in)
			if !bytes.HasPrefix(b, prefix) {
				t.Fatal("AppendError changed what was there")
			}
			e, err := ParseError(b[len(prefix):])
			if err != nil || e.Status != in.Status || e.Code != in.Code || e.Ran != in.Ran ||
				string(e.Text) != strings.Repeat("t", min(n, MaxErrorText)) ||
				string(e.Details) != strings.Repeat("d", min(m, MaxErrorDetails)) {
				t.Errorf("%d and %d bytes: %+v, %v", n, m, e, err)
			}
		}
	}
}

// TestParseError: codes and flags of later versions pass, bodies that nobody sends do not.
func TestParseError(t *testing.T) {
	good := []byte{5, 200, 0xFE, 9, 1, 0, 9, 9, 'x', 'y'}
	e, err := ParseError(good)
	if err != nil || e.Code != 200 || e.Ran || string(e.Text) != "x" || string(e.Details) != "y" {
		t.Errorf("%+v, %v", e, err)
	}
	if &e.Text[0] != &good[8] || &e.Details[0] != &good[9] || cap(e.Text) != 1 {
		t.Error("text or details were copied")
	}
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, bad := range map[string]struct {
		body []byte
		want error
	}{
		"nothing": {nil, ErrSize}, "short": {good[:7], ErrSize}, "text cut": {edit(4, 3), ErrSize},
		"long":             {append(bytes.Clone(good), make([]byte, MaxErrorSize)...), ErrSize},
		"details too long": {append(bytes.Clone(good), make([]byte, MaxErrorDetails)...), ErrSize},
		"text too long":    {append(edit(5, 2)[:8], make([]byte, 600)...), ErrSize},
		"status OK":        {edit(0, 0), ErrStatus}, "status unknown": {edit(0, 17), ErrStatus},
		"code OK": {edit(1, 0), ErrStatus},
	} {
		if e, err := ParseError(bad.body); err != bad.want || e.Text != nil || e.Code != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// TestCodes: each code and status has a text of its own, and each code a status.
func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for c := range Code(numCodes) {
		if s := c.String(); s == "" || s == Code(numCodes).String() || seen[s] {
			t.Errorf("code %d is %q", c, s)
		}
		seen[c.String()] = true
		if (c.Status() == StatusOK) != (c == CodeOK) {
			t.Errorf("code %v has status %v", c, c.Status())
		}
	}
	for s := range Status(numStatus) {
		if n := s.String(); n == "" || n == Status(numStatus).String() || seen[n] {
			t.Errorf("status %d is %q", s, n)
		}
		seen[s.String()] = true
	}
	if Code(200).Status() != StatusUnknown {
		t.Error("an unknown code has a known status")
	}
}
