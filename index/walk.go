package index

import (
	"encoding/binary"
	"unsafe"

	"github.com/userspace-rpc/erpc/gopt"
)

// ahead is how many leaves behind the present one a walk has asked for, at most.
const ahead = 2

// A leaf as it is when keys come in a random order.
const (
	usual   = 40 // keys
	reading = 11 // lines that a walk reads, from order on
)

// walk goes through the leaves of a layer upwards. As long as the parent of a leaf lives it has the
// next leaf too; then comes the parent's next sibling, if the two were siblings.
type walk[C any] struct {
	tree  *tree[C]
	left  int    // keys that the walk is to come by yet, about
	p     *inner // nil: look from the root
	i     int
	asked int    // children of p that need no asking
	next  *inner // the parent behind p, nil if it is not known
	early int    // children of next that need no asking
}

// newWalk returns a walk for about so many keys.
func newWalk[C any](t *tree[C], keys int) walk[C] { return walk[C]{tree: t, left: keys} }

// leaf returns the leaf for slice k, and its state: the first one of the walk, or the one
// behind the last one. nil if the layer has gone.
func (w *walk[C]) leaf(k uint64) (*leaf[C], state) {
	if w.p != nil {
		if w.i++; w.i == w.p.size() {
			w.p, w.i, w.asked, w.next, w.early = w.next, 0, w.early, nil, 0
		}
	}
	if p := w.p; p != nil {
		n := p.kid(w.i)
		if p.alive() && n.low == k {
			w.ask()
			return heir[C](n, k)
		}
	}
	for {
		l, o := heir[C](w.seek(k), k)
		if l == nil || l.until(k) >= k {
			return l, o
		}
		// The leaf was cut, and then replaced, since the parent led here.
	}
}

// seek is descend to level 0, and keeps what it comes by.
func (w *walk[C]) seek(k uint64) *node {
	w.p, w.next, w.early = nil, nil, 0
	n := w.tree.root.Load()
	for n.level > 1 {
		point(pointRead)
		if h := n.moved.Load(); h != nil {
			if n = h.pick(k); n.level <= 1 {
				break
			}
		}
		p := n.inner()
		i := p.route(k)
		n = p.kid(i)
		if p.level == 2 {
			kid := [1]*node{n}
			gopt.Prefetch(kid[:], innerLines)
			if i++; i < p.size() {
				w.next = p.kid(i).inner()
				w.next.askKids()
			}
		}
	}
	if n.level != 1 {
		return n
	}
	w.p = n.inner()
	w.i = w.p.route(k)
	w.asked = w.i
	w.left += usual / 2 // the walk begins at one of the leaf's keys
	w.ask()
	return w.p.kid(w.i)
}

// askKids asks for what a walk needs of p: the first line, and the first children.
func (p *inner) askKids() {
	lines := [3]*node{&p.node}
	lines[1] = (*node)(unsafe.Pointer(&p.kids[0]))
	lines[2] = (*node)(unsafe.Pointer(&p.kids[group]))
	gopt.Prefetch(lines[:], 1)
}

// ask asks for the present leaf and those that come next, and takes the present one's keys off.
func (w *walk[C]) ask() {
	to := w.i + 1 + min(ahead, max(w.left, 0)/usual)
	w.left -= usual
	n := w.p.size()
	for ; w.asked < min(to, n); w.asked++ {
		w.askLeaf(w.p.kid(w.asked))
	}
	if q := w.next; to > n && q != nil {
		for ; w.early < min(to-n, q.size()); w.early++ {
			w.askLeaf(q.kid(w.early))
		}
	}
}

// askLeaf asks for what a walk needs of a leaf.
func (w *walk[C]) askLeaf(n *node) {
	part := [1]*node{n}
	gopt.Prefetch(part[:], 1)
	part[0] = (*node)(unsafe.Add(unsafe.Pointer(n), unsafe.Offsetof(leaf[C]{}.order)))
	gopt.Prefetch(part[:], reading)
}

// visit gets a key, which it must not keep, and its value. It returns false to end the walk.
type visit[C any] func(key []byte, c *C) bool

// keyBuf has room for a key of MaxKey bytes and a slice.
type keyBuf [MaxKey + 8]byte

// span gets a leaf whose keys all have 8 bytes, one of its states, the slice to begin at, whether
// to begin behind that, and buf[:end], whose last 8 bytes are for a key. It returns false to end
// the walk.
type span[C any] func(l *leaf[C], s state, k uint64, past bool, key []byte) bool

// ascend visits the keys of a layer from a key on, in order, about so many. The first 8*depth bytes
// of buf are the common prefix of the layer's keys. It returns false if fn did. Whole leaves of
// keys of 8 bytes go to all, if it is not nil.
func (t *tree[C]) ascend(
	buf *keyBuf, depth int, from []byte, about int, fn visit[C], all span[C],
) bool {
	first, kind := head(from)
	w := newWalk(t, about)
	for k, begun := first, false; ; begun = true {
		l, s := w.leaf(k)
		if l == nil {
			return true
		}
		var order list
		places := order[:0]
		if all == nil || !s.whole() {
			places = order[:l.list(s, &order)]
		} else if !all(l, s, k, !begun && kind > 8, buf[:8*depth+8]) {
			return false
		}
		for _, at := range places {
			place := int(at)
			key, is := l.pairs[place].key, l.kind(place)
			border := !begun && key == first
			if key < k || border && min(is, suffixed) < kind {
				continue
			}
			binary.BigEndian.PutUint64(buf[8*depth:], key)
			if is <= 8 {
				if !fn(buf[:8*depth+int(is)], &l.pairs[place].val) {
					return false
				}
				continue
			}
			var rest []byte
			if border && kind > 8 {
				rest = from[8:]
			}
			if !l.ascend(buf, depth, place, rest, about, fn, all) {
				return false
			}
		}
		end := l.until(k)
		if end == ^uint64(0) {
			return true
		}
		k = end + 1
	}
}

// below returns how many of some places, in order, are below slice k; those of the slice itself
// count if past is set.
func (l *leaf[C]) below(places []uint8, k uint64, past bool) (n int) {
	if k == l.low && !past {
		return 0
	}
	for ; n < len(places); n++ {
		if key := l.pairs[places[n]].key; key > k || key == k && !past {
			break
		}
	}
	return n
}

// ascend visits an entry of longer keys, from rest on.
func (l *leaf[C]) ascend(
	buf *keyBuf, depth, place int, rest []byte, about int, fn visit[C], all span[C],
) bool {
	end := 8*depth + 8
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.ascend(buf, depth+1, rest, about, fn, all)
	}
	if x.rest < string(rest) {
		return true
	}
	return fn(buf[:end+copy(buf[end:], x.rest)], &l.pairs[place].val)
}

// descendAll visits the keys of a layer up to a key, the largest first; all of them if whole is
// set.
func (t *tree[C]) descendAll(buf *keyBuf, depth int, to []byte, whole bool, fn visit[C]) bool {
	last, kind := head(to)
	if whole {
		last, kind = ^uint64(0), suffixed
	}
	for k := last; ; whole = true {
		l, s := t.leaf(k)
		if l == nil {
			return true
		}
		var order list
		for i := l.list(s, &order) - 1; i >= 0; i-- {
			place := int(order[i])
			key, is := l.pairs[place].key, l.kind(place)
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
		return fn(buf[:end+int(kind)], &l.pairs[place].val)
	}
	end += 8
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.descendAll(buf, depth+1, rest, whole, fn)
	}
	if !whole && x.rest > string(rest) {
		return true
	}
	return fn(buf[:end+copy(buf[end:], x.rest)], &l.pairs[place].val)
}
