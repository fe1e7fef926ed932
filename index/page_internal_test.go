package index

import (
	"encoding/binary"
	"testing"
	"unsafe"
)

// TestPageKeepsItsMemory: a page that is filled again allocates nothing, and gives back what a key
// or a value was before.
func TestPageKeepsItsMemory(t *testing.T) {
	m := NewMap()
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for i := range 300 {
		_, _, _ = m.Put(key(i), uint64(i))
	}
	var p Page
	m.Fill(&p, nil, 300)
	values, keys := unsafe.SliceData(p.values), unsafe.SliceData(p.keys)
	for from := range 300 {
		m.Fill(&p, key(from), 100)
		if unsafe.SliceData(p.values) != values || unsafe.SliceData(p.keys) != keys {
			t.Fatalf("from %d: other memory", from)
		}
		if len(p.ends) > 0 {
			t.Fatalf("from %d: keys as text", from)
		}
		if want := min(100, 300-from); p.Len() != want || len(p.Values()) != want {
			t.Fatalf("from %d: %d keys, want %d", from, p.Len(), want)
		}
		for i, v := range p.Values() {
			if v != uint64(from+i) || string(p.Key(i)) != string(key(from+i)) {
				t.Fatalf("from %d, key %d: %x %d", from, i, p.Key(i), v)
			}
		}
	}
	for _, n := range []int{0, -1} {
		if m.Fill(&p, nil, n); p.Len() != 0 {
			t.Errorf("%d keys of %d", p.Len(), n)
		}
	}
}

// TestPageKeysApart: to append to a key of a page changes no other.
func TestPageKeysApart(t *testing.T) {
	m := NewMap()
	for _, k := range []string{"a", "bb", "ccc", "dddddddd", "eeeeeeeee", "eeeeeeeeeee"} {
		_, _, _ = m.Put([]byte(k), uint64(len(k)))
	}
	var p Page
	for _, from := range []string{"a", "d"} {
		m.Fill(&p, []byte(from), 10)
		for i := range p.Len() {
			_ = append(p.Key(i), "xxxxxxxxxx"...)
		}
		for i, v := range p.Values() {
			if k := p.Key(i); uint64(len(k)) != v || k[0] != k[v-1] {
				t.Errorf("key %d is %q", i, k)
			}
		}
	}
}

// TestPageGoesOn: where leaves of keys of 8 bytes end, a page goes on with the shortest key of the
// next leaf, and behind leaves of other keys with those of 8 bytes.
func TestPageGoesOn(t *testing.T) {
	m, leaves := spaced(t, 1000)
	for i := 3; i < len(leaves); i += 5 {
		var buf keyBuf
		key := shortest(&buf, leaves[i].low)
		if len(key) >= 8 {
			t.Fatalf("leaf %d begins with a key of 8 bytes", i)
		}
		_, _, _ = m.Put(key, uint64(i))
		_, _, _ = m.Put(append(key, "\x00\x00\x00\x00\x00\x00\x00"...), uint64(i)+1)
	}
	var all [][]byte
	m.Scan(nil, 1e6, func(key []byte, _ uint64) bool {
		all = append(all, append([]byte(nil), key...))
		return true
	})
	var p Page
	for i, from := range all {
		for _, n := range []int{1, 40, 128, 2000} {
			m.Fill(&p, from, n)
			if want := min(n, len(all)-i); p.Len() != want {
				t.Fatalf("%d keys from %x on, want %d", p.Len(), from, want)
			}
			for j, v := range p.Values() {
				got, _ := m.Get(all[i+j])
				if string(p.Key(j)) != string(all[i+j]) || v != got {
					t.Fatalf("key %d from %x on: %x %d", j, from, p.Key(j), v)
				}
			}
		}
	}
}

// TestPageFromLong: a page or a scan from a longer key on leaves out the key of its slice. It
// leaves out no later one, such as the lowest that a leaf can have.
func TestPageFromLong(t *testing.T) {
	m := NewMap()
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	const keys = 1000
	for i := range keys {
		_, _, _ = m.Put(key(i*7919%keys), uint64(i*7919%keys))
	}
	var p Page
	for i := range keys {
		m.Fill(&p, append(key(i), 0), keys)
		if p.Len() != keys-1-i {
			t.Fatalf("%d keys behind %d, want %d", p.Len(), i, keys-1-i)
		}
		for j, v := range p.Values() {
			if v != uint64(i+1+j) {
				t.Fatalf("key %d behind %d is %d", j, i, v)
			}
		}
		m.Scan(append(key(i), 0), 1, func(_ []byte, v uint64) bool {
			if v != uint64(i+1) {
				t.Errorf("a scan behind %d begins with %d", i, v)
			}
			return true
		})
	}
}

// TestLeafLines: what a walk asks for lies where it asks, in whole lines.
func TestLeafLines(t *testing.T) {
	const line, before = 64, 8 // the runtime has a word before a leaf
	var l leaf[word]
	if at := unsafe.Offsetof(l.order) + before; at%line != 0 {
		t.Errorf("order at %d", at)
	}
	if at := unsafe.Offsetof(l.pairs) + before; at%line != 0 {
		t.Errorf("pairs at %d", at)
	}
	if at := unsafe.Offsetof(l.order) + before + line; at != unsafe.Offsetof(l.pairs)+before {
		t.Errorf("pairs are not behind order")
	}
	if at := unsafe.Offsetof(l.marks) + before; at != line {
		t.Errorf("marks at %d", at)
	}
	if n := unsafe.Sizeof(l) + before; n != leafLines*line {
		t.Errorf("a leaf has %d bytes", n)
	}
}
