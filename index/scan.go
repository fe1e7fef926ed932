package index

import (
	"encoding/binary"
	"iter"
	"sync"
)

// someKeys is how many keys an iterator is made for.
const someKeys = 64

// scanBufs has a *keyBuf for each Scan under way.
var scanBufs = sync.Pool{New: func() any { return new(keyBuf) }}

// Scan calls fn for the first n keys from a key on, in order, until fn returns false. It returns
// how many calls there were. The key that fn gets is Scan's own, and changes with the next call;
// after the last one others use it. So fn must not keep it.
func (m *Map) Scan(from []byte, n int, fn func(key []byte, value uint64) bool) (seen int) {
	if n <= 0 {
		return 0
	}
	buf := scanBufs.Get().(*keyBuf)
	visit := func(key []byte, c *word) bool {
		seen++
		return fn(key, c.Load()) && seen < n
	}
	m.tree.ascend(buf, 0, from, n, visit, func(l *leaf[word], o order, key []byte) bool {
		slice := key[len(key)-8:]
		size := min(o.size(), n-seen)
		for i := range size {
			o >>= 4
			binary.BigEndian.PutUint64(slice, l.keys[o&15])
			if !fn(key, l.vals[o&15].Load()) {
				seen += i + 1
				return false
			}
		}
		seen += size
		return seen < n
	})
	scanBufs.Put(buf)
	return seen
}

// Ascend returns the keys from a key on and their values, in order; all of them from nil. A key is
// the iterator's own and changes with the next one.
func (m *Map) Ascend(from []byte) iter.Seq2[[]byte, uint64] {
	return func(yield func([]byte, uint64) bool) {
		var buf keyBuf
		visit := func(key []byte, c *word) bool { return yield(key, c.Load()) }
		m.tree.ascend(&buf, 0, from, someKeys, visit, nil)
	}
}

// Descend returns the keys up to a key and their values, the largest first; all of them from nil.
// A key is the iterator's own and changes with the next one.
func (m *Map) Descend(to []byte) iter.Seq2[[]byte, uint64] {
	return func(yield func([]byte, uint64) bool) {
		var buf keyBuf
		m.tree.descendAll(&buf, 0, to, to == nil, func(key []byte, c *word) bool {
			return yield(key, c.Load())
		})
	}
}

// SumAfter adds the values of the n keys that come after key, or fewer if there are no more. It
// takes no lock and does not allocate.
func (m *Map) SumAfter(key []byte, n int) (sum uint64, count int) {
	if n > 0 {
		count = n - sumAfter(m.tree, key, true, n, &sum)
	}
	return sum, count
}

// sumAfter adds the values of keys of a layer that come after a key, or from the first one on if
// after is not set. It returns how many of n are left.
func sumAfter(t *tree[word], key []byte, after bool, n int, sum *uint64) (left int) {
	first, kind := head(key)
	w := newWalk(t, sumLines, n)
	for k := first; ; after = false {
		l, o := w.leaf(k)
		if l == nil {
			return n
		}
		switch {
		case l.low == k && !after && l.short():
			n -= sumLeaf(l, o.first(min(o.size(), n)), sum)
		case l.kinds.Load() == whole:
			o = o.from(l.below(o, k, after && kind >= 8))
			n -= sumLeaf(l, o.first(min(o.size(), n)), sum)
		default:
			n = sumMixed(l, o, k, key, after, n, sum)
		}
		end := l.end(k)
		if n == 0 || end == ^uint64(0) {
			return n
		}
		k = end + 1
	}
}

// sumMixed is sumAfter for one leaf, whose keys have different lengths; k is where it begins, the
// first slice of key if after is set.
func sumMixed(
	l *leaf[word], o order, k uint64, key []byte, after bool, n int, sum *uint64,
) (left int) {
	kind := uint8(min(len(key), suffixed))
	for i := o.size(); i > 0 && n > 0; i-- {
		o >>= 4
		place := int(o & 15)
		at := l.keys[place]
		is := l.kind(place)
		border := after && at == k
		if at < k || border && is <= 8 && is <= kind {
			continue
		}
		if is <= 8 {
			*sum += l.vals[place].Load()
			n--
		} else {
			n = sumLong(l, place, key, border && kind > 8, n, sum)
		}
	}
	return n
}

// short reports whether no entry of a leaf can be for longer keys: the kinds that it has, or has
// had, are 0 and 8.
func (l *leaf[C]) short() bool { return l.kinds.Load()&0x777_7777_7777_7777 == 0 }

// sumLeaf adds the values that o names, and returns how many these are. It adds that of the place
// which no leaf uses for the others: a loop would end somewhere else in each leaf, which costs a
// wrong prediction.
func sumLeaf(l *leaf[word], o order, sum *uint64) int {
	v, f := &l.vals, o.filled()
	*sum += v[f>>4&15].Load() + v[f>>8&15].Load() + v[f>>12&15].Load() + v[f>>16&15].Load() +
		v[f>>20&15].Load() + v[f>>24&15].Load() + v[f>>28&15].Load() + v[f>>32&15].Load() +
		v[f>>36&15].Load() + v[f>>40&15].Load() + v[f>>44&15].Load() + v[f>>48&15].Load() +
		v[f>>52&15].Load() + v[f>>56&15].Load() + v[f>>60&15].Load()
	return o.size()
}

// sumLong is sumAfter for an entry of longer keys.
func sumLong(l *leaf[word], place int, key []byte, after bool, n int, sum *uint64) (left int) {
	x := &l.long[place]
	if after {
		key = key[8:]
	}
	switch {
	case x.layer != nil && after:
		return sumAfter(x.layer, key, true, n, sum)
	case x.layer != nil:
		return sumAfter(x.layer, nil, false, n, sum)
	case after && x.rest <= string(key):
		return n
	}
	*sum += l.vals[place].Load()
	return n - 1
}
