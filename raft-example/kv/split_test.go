package kv

import (
	"bytes"
	"testing"
)

// TestSplit: writes in a row come apart again, and nothing else does.
func TestSplit(t *testing.T) {
	var (
		k    = key(t, "k")
		put  = (&Command{Op: Put, Session: 1, Seq: 1, Key: k, Value: value(t, "v")}).Append(nil)
		del  = (&Command{Op: Delete, Session: 1, Seq: 2, Key: key(t, "key")}).Append(nil)
		cas  = (&Command{Op: CAS, Session: 1, Seq: 3, Key: k, Old: value(t, "o")}).Append(nil)
		get  = (&Command{Op: Get, Key: k}).Append(nil)
		open = (&Command{Op: Open}).Append(nil)
		tick = (&Command{Op: Clock, Seq: 7}).Append(nil)
		none = (&Command{Op: Put, Session: 1, Seq: 1}).Append(nil)
	)
	for name, c := range map[string]struct{ whole, parts [][]byte }{
		"none":          {[][]byte{{}}, [][]byte{{}}},
		"one":           {[][]byte{put}, [][]byte{put}},
		"three":         {[][]byte{put, del, cas}, [][]byte{put, del, cas}},
		"open":          {[][]byte{open}, [][]byte{open}},
		"open in front": {[][]byte{open, put}, [][]byte{append(bytes.Clone(open), put...)}},
		"open behind":   {[][]byte{put, open}, [][]byte{put, open}},
		"two opens":     {[][]byte{put, open, open}, [][]byte{put, append(bytes.Clone(open), open...)}},
		"clock":         {[][]byte{tick, put}, [][]byte{append(bytes.Clone(tick), put...)}},
		"get":           {[][]byte{get, put}, [][]byte{append(bytes.Clone(get), put...)}},
		"cut":           {[][]byte{put, del[:len(del)-1]}, [][]byte{put, del[:len(del)-1]}},
		"cut header":    {[][]byte{put, del[:cmdHeader-1]}, [][]byte{put, del[:cmdHeader-1]}},
	} {
		rest, parts := bytes.Join(c.whole, nil), [][]byte(nil)
		for done := false; !done; done = len(rest) == 0 {
			var first []byte
			first, rest = Split(rest)
			parts = append(parts, first)
		}
		if len(parts) != len(c.parts) {
			t.Errorf("%s: %d parts: %x", name, len(parts), parts)
			continue
		}
		for i, p := range parts {
			if !bytes.Equal(p, c.parts[i]) || len(p) > 0 && cap(p) != len(p) && i+1 < len(parts) {
				t.Errorf("%s: part %d is %x, capacity %d, want %x", name, i, p, cap(p), c.parts[i])
			}
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"put": {put, true}, "delete": {del, true}, "cas": {cas, true}, "get": {get, false},
		"open": {open, false}, "clock": {tick, false}, "none": {nil, false},
		"short": {put[:cmdHeader-1], false}, "no key": {none, true}, "cut": {put[:len(put)-1], false},
		"two": {append(bytes.Clone(put), put...), false},
	} {
		if got := Whole(c.b); got != c.want {
			t.Errorf("%s: whole: %v", name, got)
		}
	}
}
