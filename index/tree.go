package index

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/gopt"
)

// tree is one layer: a B+tree of slices.
type tree[C any] struct {
	root atomic.Pointer[node]
	mu   sync.Mutex               // the lock of the root's parent
	hint atomic.Pointer[hints[C]] // nil before the first extend
}

// newTree returns a layer with these entries.
func newTree[C any](list []entry[C]) *tree[C] {
	t := &tree[C]{}
	t.root.Store(&newLeaf(0, ^uint64(0), list).node)
	return t
}

// head returns the first slice of a key and what kind of entry it belongs to.
func head(key []byte) (slice uint64, kind uint8) {
	if len(key) >= 8 {
		slice = binary.BigEndian.Uint64(key)
		if len(key) == 8 {
			return slice, 8
		}
		return slice, suffixed
	}
	for i, b := range key {
		slice |= uint64(b) << (56 - 8*i)
	}
	return slice, uint8(len(key))
}

// descend returns a node of the given level that slice k belongs to, or one below if the tree
// became lower meanwhile; nil if the layer has gone. A leaf may have died; an inner node that it
// returns was alive, or died after the call.
func (t *tree[C]) descend(k uint64, level uint8) *node {
	n := t.root.Load()
	for n != nil && n.level > level {
		point(pointRead)
		if h := n.moved.Load(); h != nil {
			if n = h.pick(k); n.level <= level {
				break
			}
		}
		p := n.inner()
		n = p.kid(p.route(k))
		switch kid := [1]*node{n}; p.level {
		case 1:
			gopt.Prefetch(kid[:], leafLines)
		case 2:
			gopt.Prefetch(kid[:], innerLines)
		}
	}
	return n
}

// leaf returns the leaf for slice k and its state. The leaf is alive, or it died after the
// call began, so that its last entries may be used. nil if the layer has gone, as empty as it was.
func (t *tree[C]) leaf(k uint64) (*leaf[C], state) {
	return heir[C](t.descend(k, 0), k)
}

// heir loads the state of the leaf n, or of the one that took its place. The order of the
// loads matters: without an heir afterwards, the state was the leaf's last one when it was loaded.
func heir[C any](n *node, k uint64) (*leaf[C], state) {
	if n == nil {
		return nil, 0
	}
	point(pointRead)
	l := leafOf[C](n)
	o := l.load()
	point(pointRead)
	if h := l.moved.Load(); h != nil {
		if n = h.pick(k); n == nil {
			return nil, 0
		}
		point(pointRead)
		l = leafOf[C](n)
		o = l.load()
	}
	point(pointRead)
	return l, o
}

// find returns the value of a key, or nil.
func (t *tree[C]) find(key []byte) *C {
	for {
		slice, kind := head(key)
		l, o := t.leaf(slice)
		if l == nil {
			return nil
		}
		place := l.find(o, slice, kind)
		if place < 0 {
			return nil
		}
		if kind <= 8 {
			return &l.pairs[place].val
		}
		x := &l.long[place]
		key = key[8:]
		if x.layer == nil {
			if string(key) != x.rest {
				return nil
			}
			return &l.pairs[place].val
		}
		t = x.layer
	}
}

// lockLeaf locks the leaf for slice k; nil if the layer has gone.
func (t *tree[C]) lockLeaf(k uint64) *leaf[C] {
	if l := t.hinted(k); l != nil {
		return l
	}
	for {
		l, _ := t.leaf(k)
		if l == nil || l.lockFor(k) {
			return l
		}
	}
}

// lockFor locks l, if it is the leaf for slice k, which is not below its first one.
func (l *leaf[C]) lockFor(k uint64) bool {
	lock(&l.mu)
	if l.alive() && k <= l.high.Load() {
		return true
	}
	l.mu.Unlock()
	return false
}

// lockParent locks the parent of n, which is locked and alive, and says which child n is. If n is
// the root it locks t.mu and p is nil.
func (t *tree[C]) lockParent(n *node) (p *inner, at int) {
	for {
		if t.root.Load() == n {
			lock(&t.mu)
			if t.root.Load() == n {
				return nil, 0
			}
			t.mu.Unlock()
		}
		if q := t.descend(n.low, n.level+1); q != nil && q.level == n.level+1 {
			lock(&q.mu)
			p = q.inner()
			at = p.route(n.low)
			if q.alive() && p.kid(at) == n {
				return p, at
			}
			q.mu.Unlock()
		}
		wait() // another writer is about to store where n is
	}
}

// unlockParent undoes lockParent.
func (t *tree[C]) unlockParent(p *inner) {
	if p == nil {
		t.mu.Unlock()
	} else {
		p.mu.Unlock()
	}
}

// wait lets other goroutines run.
func wait() {
	if !point(pointWait) {
		runtime.Gosched()
	}
}

// lock locks mu, in tests under the eyes of their scheduler.
func lock(mu *sync.Mutex) {
	if scheduled() {
		for !mu.TryLock() {
			point(pointWait)
		}
		return
	}
	mu.Lock()
}
