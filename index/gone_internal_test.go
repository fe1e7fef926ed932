package index

import "testing"

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

func spacedKey(v uint64) []byte { return numberKey(v << 16) }

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
			m.Fill(&p, numberKey(high), n)
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

// TestScanStops: a scan says how many calls there were, the one that ended it included.
func TestScanStops(t *testing.T) {
	m, _ := spaced(t, 200)
	for most := 1; most < 200; most += 7 {
		calls := 0
		n := m.Scan(nil, 1000, func([]byte, uint64) bool {
			calls++
			return calls < most
		})
		if n != most || calls != most {
			t.Errorf("%d calls, said to be %d, want %d", calls, n, most)
		}
	}
}

// TestSumLastSlice: a sum has the key of the largest slice, where that has a leaf of its own too.
func TestSumLastSlice(t *testing.T) {
	for keys := range 2 * uint64(width) {
		m := NewMap()
		for k := range keys {
			_, _, _ = m.Put(numberKey(k), 1)
		}
		_, _, _ = m.Put(numberKey(^uint64(0)), 1)
		for after := range keys {
			want := keys - after
			if sum, n := m.SumAfter(numberKey(after), 1000); sum != want || n != int(want) {
				t.Fatalf("after %d of %d: %d, %d", after, keys, sum, n)
			}
		}
		if sum, n := m.SumAfter(numberKey(^uint64(0)), 1000); sum != 0 || n != 0 {
			t.Fatalf("after the last key of %d: %d, %d", keys, sum, n)
		}
	}
}

// TestLongerKeyBehindAll: a longer key with the slice of the last key stays in the same leaf, as
// full as that may be.
func TestLongerKeyBehindAll(t *testing.T) {
	for keys := range 3 * uint64(width) {
		m := NewMap()
		for k := range keys + 1 {
			_, _, _ = m.Put(numberKey(k), k)
		}
		_, _, _ = m.Put(append(numberKey(keys), 1), keys+1)
		if _, err := m.Check(); err != nil {
			t.Fatalf("%d keys: %v", keys+1, err)
		}
		if v, ok := m.Get(numberKey(keys)); !ok || v != keys {
			t.Fatalf("the last of %d keys: %d %v", keys+1, v, ok)
		}
	}
}
