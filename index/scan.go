package index

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"sync"
)

// someKeys is how many keys an iterator is made for.
const someKeys = 64

// scanBufs has a *keyBuf for each Scan under way.
var scanBufs = sync.Pool{New: func() any { return new(keyBuf) }}

// Scan calls fn for the first n keys from a key on, in order, until fn returns false. It returns
// how many calls there were. The key that fn gets is Scan's own, and changes with the next call;
// after the last one others use it. So fn must not keep it. Fill takes less time.
func (m *Map) Scan(from []byte, n int, fn func(key []byte, value uint64) bool) (seen int) {
	if n <= 0 {
		return 0
	}
	buf := scanBufs.Get().(*keyBuf)
	visit := func(key []byte, c *word) bool {
		seen++
		return fn(key, c.Load()) && seen < n
	}
	m.tree.ascend(buf, 0, from, n, visit, func(
		l *leaf[word], s state, k uint64, past bool, key []byte,
	) bool {
		slice := key[len(key)-8:]
		var order list
		places := order[:l.list(s, &order)]
		places = places[l.below(places, k, past):]
		places = places[:min(len(places), n-seen)]
		for i, place := range places {
			p := &l.pairs[place]
			binary.BigEndian.PutUint64(slice, p.key)
			if !fn(key, p.val.Load()) {
				seen += i + 1
				return false
			}
		}
		seen += len(places)
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
	w := newWalk(t, n)
	for k := first; ; after = false {
		l, s := w.leaf(k)
		switch {
		case l == nil:
			return n
		case !s.whole():
			n = sumMixed(l, s, k, key, after, n, sum)
		case s.size() > n:
			n -= sumFirst(l, s, k, after && kind >= 8, n, sum)
		case after && kind >= 8 && k == ^uint64(0):
			return n
		case after && kind >= 8:
			n -= sumLeaf(l, s, k+1, sum)
		default:
			n -= sumLeaf(l, s, k, sum)
		}
		end := l.until(k)
		if n == 0 || end == ^uint64(0) {
			return n
		}
		k = end + 1
	}
}

// sumMixed is sumAfter for one leaf, whose keys have different lengths; k is where it begins, the
// first slice of key if after is set.
func sumMixed(
	l *leaf[word], s state, k uint64, key []byte, after bool, n int, sum *uint64,
) (left int) {
	kind := uint8(min(len(key), suffixed))
	var order list
	for _, p := range order[:l.list(s, &order)] {
		if n == 0 {
			break
		}
		place := int(p)
		at := l.pairs[place].key
		is := l.kind(place)
		border := after && at == k
		if at < k || border && is <= 8 && is <= kind {
			continue
		}
		if is <= 8 {
			*sum += l.pairs[place].val.Load()
			n--
		} else {
			n = sumLong(l, place, key, border && kind > 8, n, sum)
		}
	}
	return n
}

// sumLeaf adds the values of the keys of s, all of 8 bytes, that are not below slice k, and returns
// how many these are. It needs no order.
func sumLeaf(l *leaf[word], s state, k uint64, sum *uint64) int {
	if s.size() == s.used() {
		return sumRow(l.pairs[:s.used()], k <= l.low, k, sum)
	}
	n, all := s.size(), uint64(0)
	for rest := s.keys(); rest != 0; rest &= rest - 1 {
		p := &l.pairs[bits.TrailingZeros64(rest)]
		_, below := bits.Sub64(p.key, k, 0) // without a branch: half of the keys are below
		all += p.val.Load() & (below - 1)
		n -= int(below)
	}
	*sum += all
	return n
}

// sumRow is sumLeaf for a leaf without deleted keys. It need not look for the next bit, which takes
// longer than all else. If whole is set no key is below k.
func sumRow(pairs []pair[word], whole bool, k uint64, sum *uint64) int {
	n, all := len(pairs), uint64(0)
	if whole {
		for i := range pairs {
			all += pairs[i].val.Load()
		}
		*sum += all
		return n
	}
	for i := range pairs {
		_, below := bits.Sub64(pairs[i].key, k, 0)
		all += pairs[i].val.Load() & (below - 1)
		n -= int(below)
	}
	*sum += all
	return n
}

// sumFirst is sumLeaf for the first n keys from slice k on, or behind it if past is set.
func sumFirst(l *leaf[word], s state, k uint64, past bool, n int, sum *uint64) int {
	var order list
	places := order[:l.list(s, &order)]
	places = places[l.below(places, k, past):]
	places = places[:min(len(places), n)]
	for _, place := range places {
		*sum += l.pairs[place].val.Load()
	}
	return len(places)
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
	*sum += l.pairs[place].val.Load()
	return n - 1
}
