package index

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Page has keys in order, and their values, as Map.Fill copied them. The zero Page has none. A Page
// that is filled again uses the memory that it has. One goroutine at a time uses it.
type Page struct {
	values []uint64
	keys   [][8]byte // if all keys have 8 bytes
	text   []byte    // else: all keys in a row
	ends   []int     // of keys in text
}

// Values returns the values. They lie in the page, until that is filled again.
func (p *Page) Values() []uint64 { return p.values }

// Len returns the number of keys.
func (p *Page) Len() int { return len(p.values) }

// Key returns the i-th key. It lies in the page, until that is filled again.
func (p *Page) Key(i int) []byte {
	if len(p.ends) == 0 {
		return p.keys[i][:]
	}
	return p.cut(i)
}

// cut is Key if not all keys have 8 bytes.
func (p *Page) cut(i int) []byte {
	begin, end := 0, p.ends[i]
	if i > 0 {
		begin = p.ends[i-1]
	}
	return p.text[begin:end:end]
}

// Fill makes p the first n keys from a key on, or fewer if there are no more, with their values.
// It does what Scan does in less time, since it calls no function for each key.
func (m *Map) Fill(p *Page, from []byte, n int) {
	p.values, p.keys, p.text, p.ends = p.values[:0], p.keys[:0], p.text[:0], p.ends[:0]
	if n <= 0 {
		return
	}
	k, begun, more := p.wholes(m.tree, from, n)
	if !more {
		return
	}
	buf := scanBufs.Get().(*keyBuf)
	if begun {
		from = shortest(buf, k)
	}
	m.fillMixed(p, buf, from, n)
	scanBufs.Put(buf)
}

// wholes is Fill for leaves whose keys all have 8 bytes, as long as such follow. If another one
// does, more is set, k is the slice to go on from, and begun says whether there were any leaves
// before.
func (p *Page) wholes(t *tree[word], from []byte, n int) (k uint64, begun, more bool) {
	k, kind := head(from)
	w := newWalk(t, n)
	for past := kind > 8; ; past = false {
		l, s := w.leaf(k)
		if l == nil {
			return 0, begun, false
		}
		if !s.whole() {
			return k, begun, true
		}
		p.take(l, s, k, past, n)
		end := l.until(k)
		if p.Len() >= n || end == ^uint64(0) {
			return 0, begun, false
		}
		k, begun = end+1, true
	}
}

// shortest writes the first key of slice k to buf and returns it.
func shortest(buf *keyBuf, k uint64) []byte {
	return bytes.TrimRight(binary.BigEndian.AppendUint64(buf[:0], k), "\x00")
}

// fillMixed is Fill for keys of any length, which go behind those that the page has. Key from may
// lie in buf if it has at most 8 bytes: it is not read after the first key has been written.
func (m *Map) fillMixed(p *Page, buf *keyBuf, from []byte, n int) {
	visit := func(key []byte, c *word) bool {
		p.add(key, c.Load())
		return p.Len() < n
	}
	m.tree.ascend(buf, 0, from, n-p.Len(), visit, func(
		l *leaf[word], s state, k uint64, past bool, key []byte,
	) bool {
		if len(key) > 8 || len(p.ends) > 0 {
			p.each(l, s, k, past, key, n)
		} else {
			p.take(l, s, k, past, n)
		}
		return p.Len() < n
	})
}

// each is take for a leaf whose keys have a prefix, or for a page that has other keys than such of
// 8 bytes.
func (p *Page) each(l *leaf[word], s state, k uint64, past bool, key []byte, n int) {
	var order list
	places := order[:l.list(s, &order)]
	places = places[l.below(places, k, past):]
	for _, place := range places[:min(len(places), n-p.Len())] {
		x := &l.pairs[place]
		binary.BigEndian.PutUint64(key[len(key)-8:], x.key)
		p.add(key, x.val.Load())
	}
}

// add puts a key of any length behind the others.
func (p *Page) add(key []byte, value uint64) {
	if len(p.ends) == 0 {
		for i := range p.values {
			p.text = append(p.text, p.keys[i][:]...)
			p.ends = append(p.ends, len(p.text))
		}
	}
	p.text = append(p.text, key...)
	p.ends = append(p.ends, len(p.text))
	p.values = append(p.values, value)
}

// take appends the keys of s from slice k on, or behind it if past is set, until the page has n.
// All keys of the page and the leaf have 8 bytes.
func (p *Page) take(l *leaf[word], s state, k uint64, past bool, n int) {
	var order list
	places := order[:l.list(s, &order)]
	places = places[l.below(places, k, past):]
	places = places[:min(len(places), n-p.Len())]
	keys, values := p.room(len(places))
	keys, values = keys[:len(places)], values[:len(places)] // which the compiler does not know
	for i, place := range places {
		x := &l.pairs[place]
		binary.BigEndian.PutUint64(keys[i][:], x.key)
		values[i] = x.val.Load()
	}
}

// room puts n empty keys behind those of a page, and returns them and their values.
func (p *Page) room(n int) (keys [][8]byte, values []uint64) {
	old := p.Len()
	p.keys = slices.Grow(p.keys, n)[:old+n]
	p.values = slices.Grow(p.values, n)[:old+n]
	return p.keys[old:], p.values[old:]
}
