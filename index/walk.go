package index

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/gopt"
)

// ahead is how many leaves a walk asks for before it comes to them.
const ahead = 4

// walk goes through the leaves of a layer upwards. As long as the parent of a leaf lives it has the
// next leaf too.
type walk[C any] struct {
	tree *tree[C]
	p    *inner // nil: look from the root
	i    int
}

// leaf returns the leaf for slice k, and its order word: the first one of the walk, or the one
// behind the last one. nil if the layer has gone.
func (w *walk[C]) leaf(k uint64) (*leaf[C], order) {
	if p := w.p; p != nil && w.i+1 < p.size() {
		n := p.kid(w.i + 1)
		if p.alive() && n.low == k {
			w.i++
			w.prefetch(w.i + ahead)
			return heir[C](n, k)
		}
	}
	n := w.tree.descend(k, 1)
	if w.p = nil; n != nil && n.level == 1 {
		w.p = n.inner()
		w.i = w.p.route(k)
		n = w.p.kid(w.i)
		for i := w.i + 1; i <= w.i+ahead; i++ {
			w.prefetch(i)
		}
	}
	if n == nil {
		return nil, 0
	}
	return heir[C](n, k)
}

// prefetch asks for a child of the parent.
func (w *walk[C]) prefetch(i int) {
	if i < w.p.size() {
		kid := [1]*node{w.p.kid(i)}
		gopt.Prefetch(kid[:], leafLines)
	}
}

// visit gets a key, which it must not keep, and its value. It returns false to end the walk.
type visit[C any] func(key []byte, c *C) bool

// keyBuf has room for a key of MaxKey bytes and a slice.
type keyBuf [MaxKey + 8]byte

// ascend visits the keys of a layer from a key on, in order. The first 8*depth bytes of buf are
// what the keys of the layer have in common. It returns false if fn did.
func (t *tree[C]) ascend(buf *keyBuf, depth int, from []byte, fn visit[C]) bool {
	first, kind := head(from)
	w := walk[C]{tree: t}
	for k, begun := first, false; ; begun = true {
		l, o := w.leaf(k)
		if l == nil {
			return true
		}
		for n := o.size(); n > 0; n-- {
			o >>= 4
			place := int(o & 15)
			key, is := l.keys[place], l.kind(place)
			border := !begun && key == first
			if key < k || border && min(is, suffixed) < kind {
				continue
			}
			binary.BigEndian.PutUint64(buf[8*depth:], key)
			if is <= 8 {
				if !fn(buf[:8*depth+int(is)], &l.vals[place]) {
					return false
				}
				continue
			}
			var rest []byte
			if border && kind > 8 {
				rest = from[8:]
			}
			if !l.ascend(buf, depth, place, rest, fn) {
				return false
			}
		}
		if l.high == ^uint64(0) {
			return true
		}
		k = l.high + 1
	}
}

// ascend visits an entry of longer keys, from rest on.
func (l *leaf[C]) ascend(buf *keyBuf, depth, place int, rest []byte, fn visit[C]) bool {
	end := 8*depth + 8
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.ascend(buf, depth+1, rest, fn)
	}
	if x.rest < string(rest) {
		return true
	}
	return fn(buf[:end+copy(buf[end:], x.rest)], &l.vals[place])
}

// descendAll visits the keys of a layer up to a key, the largest first; all of them if whole is
// set.
func (t *tree[C]) descendAll(buf *keyBuf, depth int, to []byte, whole bool, fn visit[C]) bool {
	last, kind := head(to)
	if whole {
		last, kind = ^uint64(0), suffixed
	}
	for k := last; ; whole = true {
		l, o := t.leaf(k)
		if l == nil {
			return true
		}
		for i := o.size() - 1; i >= 0; i-- {
			place := o.at(i)
			key, is := l.keys[place], l.kind(place)
			border := !whole && key == last
			if key > k || border && min(is, suffixed) > kind {
				continue
			}
			border = border && kind > 8 && is > 8
			var rest []byte
			if border {
				rest = to[8:]
			}
			binary.BigEndian.PutUint64(buf[8*depth:], key)
			if !l.descend(buf, depth, place, is, rest, !border, fn) {
				return false
			}
		}
		if l.low == 0 {
			return true
		}
		k = l.low - 1
	}
}

// descend visits one entry, up to rest if it is of longer keys and whole is not set.
func (l *leaf[C]) descend(
	buf *keyBuf, depth, place int, kind uint8, rest []byte, whole bool, fn visit[C],
) bool {
	end := 8 * depth
	if kind <= 8 {
		return fn(buf[:end+int(kind)], &l.vals[place])
	}
	end += 8
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.descendAll(buf, depth+1, rest, whole, fn)
	}
	if !whole && x.rest > string(rest) {
		return true
	}
	return fn(buf[:end+copy(buf[end:], x.rest)], &l.vals[place])
}
