package ycsb

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestFill: the bytes of a field follow from key, field and version, for keys of any length, and
// from nothing else. Processes of different builds share a store, so they never change.
func TestFill(t *testing.T) {
	s := Schema{Fields: 2, FieldBytes: 20}
	seen := map[string]string{}
	for _, c := range []struct{ key, want string }{
		{"",
			"0700000000000000a37c14d41f2216636bc40c84" +
				"0700000000000000aa406dc352d9795160c37a91"},
		{"user1",
			"0700000000000000696c749a30798248d6a485ab" +
				"07000000000000002e7721ebbbcac2dc2c8e18bb"},
		{"12345678",
			"07000000000000006da90da3031a30618d291b75" +
				"070000000000000005464aae7959c043c93ebe85"},
		{"123456789",
			"0700000000000000d13d74669f0bea48bd5564de" +
				"070000000000000077a01070604d8823d7200800"},
		{"1234567812345678",
			"070000000000000063baed58f71b7c3e1b1bd6f9" +
				"0700000000000000ec0ef8b57356fda5aa80108d"},
	} {
		dst := make([]byte, s.Bytes())
		s.Fill(dst, []byte(c.key), 7)
		if got := hex.EncodeToString(dst); got != c.want {
			t.Errorf("key %q: %s, want %s", c.key, got, c.want)
		}
		for _, f := range [][]byte{dst[8:20], dst[28:]} {
			if by, ok := seen[string(f)]; ok {
				t.Errorf("key %q has the bytes of %q", c.key, by)
			}
			seen[string(f)] = c.key
		}
		one := make([]byte, s.FieldBytes)
		if s.FillField(one, []byte(c.key), 1, 7); !bytes.Equal(one, dst[20:]) {
			t.Errorf("key %q: field 1 alone is %x", c.key, one)
		}
	}
}

// TestCounts: counts add up, and those of wrong answers are the bad ones.
func TestCounts(t *testing.T) {
	c := Counts{Done: 1, Missing: 2, Wrong: 4, Stale: 8, Failed: 16}
	if n := c.Bad(); n != 14 {
		t.Errorf("%d bad answers", n)
	}
	c.Add(Counts{Done: 32, Missing: 64, Wrong: 128, Stale: 256, Failed: 512})
	if want := (Counts{33, 66, 132, 264, 528}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}
