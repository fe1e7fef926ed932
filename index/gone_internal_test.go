package index

import (
	"encoding/binary"
	"testing"
)

// spaced returns a map of n keys of 8 bytes, put in no order: value i has key i<<16. It returns the
// leaves too.
func spaced(t *testing.T, n int) (m *Map, leaves []*leaf[word]) {
	t.Helper()
	m = NewMap()
	for i := range n {
		v := uint64(i * 7919 % n)
		_, _, _ = m.Put(spacedKey(v), v)
	}
	for k := uint64(0); ; {
		l, s := m.tree.leaf(k)
		if !s.whole() {
			t.Fatal("a leaf of other keys")
		}
		leaves = append(leaves, l)
		if k = l.high.Load() + 1; k == 0 {
			return m, leaves
		}
	}
}

func spacedKey(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v<<16) }

// TestPageBehindGone: a page that begins behind the last key of a leaf that had a shorter key once
// has the keys of the next leaves, and not as text.
func TestPageBehindGone(t *testing.T) {
	const keys = 1000
	m, leaves := spaced(t, keys)
	var p Page
	tried := 0
	for i := 1; i+1 < len(leaves); i += 2 {
		l := leaves[i]
		if l.load().used() == width {
			continue // a further key would make a new leaf
		}
		short := spacedKey(l.low >> 16)[:6]
		_, _, _ = m.Put(short, 1)
		m.Delete(short)
		if l.load().whole() || !l.alive() {
			t.Fatal("the leaf has forgotten its shorter key")
		}
		high := l.high.Load()
		first := high>>16 + 1
		for _, n := range []int{10, keys} {
			m.Fill(&p, binary.BigEndian.AppendUint64(nil, high), n)
			if n == 10 && len(p.ends) > 0 {
				t.Errorf("keys behind %x are text", high)
			}
			if want := min(n, keys-int(first)); p.Len() != want {
				t.Fatalf("%d keys behind %x, want %d", p.Len(), high, want)
			}
			for j, v := range p.Values() {
				if v != first+uint64(j) || string(p.Key(j)) != string(spacedKey(v)) {
					t.Fatalf("key %d behind %x: %x %d", j, high, p.Key(j), v)
				}
			}
		}
		tried++
	}
	if tried == 0 {
		t.Error("no leaf with a place left")
	}
}
