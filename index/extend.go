package index

import "sync/atomic"

// extends reports whether a new key, whose rank in a full leaf is i, is to go to a leaf of its own
// behind l: it comes behind all that l has ever had, and keys seem to come in order. A leaf is cut
// once at most.
func (l *leaf[C]) extends(i int, key uint64) bool {
	return i == l.load().used() && l.pairs[l.at(i-1)].key != key && l.end.Load() == 0 &&
		(l.high.Load() == ^uint64(0) || l.straight(i))
}

// extend cuts a leaf, which is locked, behind its last key: a new leaf with one entry has the
// slices from that one on. The old leaf stays, so keys that come in order are never copied.
//
// A reader that was led to l for one of these slices finds nothing there, as it was when the cut
// was published, which came after the reader's begin: the parent led it to l before. For the same
// reason a walk that was led to l for such a slice goes on behind the slices that l had before; see
// until. A walk that comes from below goes on at the cut, so the end of l is stored before the new
// leaf can be found. Nobody can write to the new leaf before all is stored.
func (t *tree[C]) extend(l *leaf[C], e *entry[C]) {
	p, i := t.lockParent(&l.node)
	high := l.high.Load()
	r := newLeaf(e.key, high, []entry[C]{*e})
	lock(&r.mu)
	l.end.Store(high)
	point(pointPublish)
	l.high.Store(e.key - 1)
	point(pointPublish)
	switch {
	case p == nil:
		t.setRoot(&newInner([]*node{&l.node, &r.node}).node)
	case i == p.size()-1 && p.size() < maxKids:
		p.add(&r.node)
	default:
		a, b := p.grown(i, &l.node, &r.node)
		t.replace(&p.node, a, b)
	}
	if t.hint.Load() == nil {
		t.hint.CompareAndSwap(nil, new(hints[C]))
	}
	t.remember(r)
	r.mu.Unlock()
	t.unlockParent(p)
}

// until returns the last slice of l for a walk that was led to it for slice k.
func (l *leaf[C]) until(k uint64) uint64 {
	if high := l.high.Load(); k <= high {
		return high
	}
	return l.end.Load()
}

// hints are the leaves that goroutines have written to last when these were made. None of them is
// dead for long, since it would keep all its heirs.
type hints[C any] [8]struct {
	leaf atomic.Pointer[leaf[C]]
	_    [56]byte
}

// hinted returns the leaf for slice k, locked, if the caller has written there before.
func (t *tree[C]) hinted(k uint64) *leaf[C] {
	h := t.hint.Load()
	if h == nil {
		return nil
	}
	l := h[caller()%len(h)].leaf.Load()
	if l != nil && k >= l.low && k <= l.high.Load() && l.lockFor(k) {
		return l
	}
	return nil
}

// remember makes l, which is new and locked, the hint of the caller.
func (t *tree[C]) remember(l *leaf[C]) {
	if h := t.hint.Load(); h != nil {
		h[caller()%len(h)].leaf.Store(l)
	}
}

// forget takes l, which is locked and about to die, out of the hints.
func (t *tree[C]) forget(l *leaf[C]) {
	if h := t.hint.Load(); h != nil {
		for i := range h {
			if at := &h[i].leaf; at.Load() == l {
				at.CompareAndSwap(l, nil)
			}
		}
	}
}
