package index

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// node is the head of inner nodes and leaves. A *node points at the first field of one of them;
// level says which.
type node struct {
	level uint8  // 0: a leaf; an inner node's is one more than that of its children
	used  uint32 // of an inner node: its separators; more come only behind the last one
	moved atomic.Pointer[heirs]
	mu    sync.Mutex // writers only
	// The slices that belong here, both inclusive. They never change, but for the end of a leaf
	// that is cut; see extend.
	low  uint64
	high word
}

// heirs are the nodes that took the place of a dead one.
type heirs struct {
	left  *node // nil: the layer has gone
	right *node // nil: left alone
}

// pick returns the node for slice k, nil if the layer has gone.
func (h *heirs) pick(k uint64) *node {
	if h.right != nil && k >= h.right.low {
		return h.right
	}
	return h.left
}

// die names the heirs of n, which is locked and alive.
func (n *node) die(left, right *node) {
	point(pointDie)
	n.moved.Store(&heirs{left, right})
	point(pointDead)
}

// alive reports whether n has no heirs; n is locked.
func (n *node) alive() bool { return n.moved.Load() == nil }

func (n *node) inner() *inner { return (*inner)(unsafe.Pointer(n)) }

func leafOf[C any](n *node) *leaf[C] { return (*leaf[C])(unsafe.Pointer(n)) }

// Sizes of inner nodes. One has 448 bytes, seven cache lines. Objects of more than 512 bytes have a
// word of the runtime's before them, so that groups of eight would not be lines.
const (
	maxKids = 24
	group   = 8               // separators in a line, and as many children in another
	minKids = 8               // one with fewer looks for a sibling to join
	sumKids = maxKids * 3 / 4 // that two siblings have together at most when they join
)

// inner is an inner node: child i has the slices from seps[i-1] on and below seps[i]. The node and
// the pivots are the first line, three lines are separators, three are children. So a lookup needs
// three of the seven: the pivots say which line of separators, and the same one of children.
//
// Where others find it, the arrays are read and written by the methods below, all of them atomic.
type inner struct {
	node
	pivots [maxKids/group - 1]uint64 // each group's last separator, but that of the last group
	_      uint64
	seps   [maxKids]uint64 // behind the used ones: the largest number
	kids   [maxKids]*node
}

// kid loads child i.
func (p *inner) kid(i int) *node {
	return (*node)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&p.kids[i]))))
}

// setKid stores child i of p, which is locked and alive.
func (p *inner) setKid(i int, n *node) {
	atomic.StorePointer((*unsafe.Pointer)(unsafe.Pointer(&p.kids[i])), unsafe.Pointer(n))
}

// pivot loads pivot i.
func (p *inner) pivot(i int) uint64 { return atomic.LoadUint64(&p.pivots[i]) }

// add puts n behind the last child of p, which is locked, alive, and has room. A reader finds the
// new child, or the one before it as it did before: what leads to the child is stored after it, and
// the count, which bounds where a reader goes, comes last.
func (p *inner) add(n *node) {
	i := p.size() - 1
	p.setKid(i+1, n)
	point(pointPublish)
	atomic.StoreUint64(&p.seps[i], n.low)
	if i%group == group-1 && i/group < len(p.pivots) {
		point(pointPublish)
		atomic.StoreUint64(&p.pivots[i/group], n.low)
	}
	point(pointPublish)
	atomic.StoreUint32(&p.used, uint32(i+1))
}

// newInner returns an inner node with these children, at least one.
func newInner(kids []*node) *inner {
	p := &inner{}
	settle(&p.node)
	p.level = kids[0].level + 1
	p.used = uint32(len(kids) - 1)
	p.low = kids[0].low
	p.high = word{kids[len(kids)-1].high.Load()}
	copy(p.kids[:], kids)
	for i, kid := range kids[1:] {
		p.seps[i] = kid.low
	}
	p.fill()
	return p
}

// fill writes what follows from the separators of a node that nobody reads yet.
func (p *inner) fill() {
	for i := p.size() - 1; i < maxKids; i++ {
		p.seps[i] = ^uint64(0)
	}
	for i := range p.pivots {
		p.pivots[i] = p.seps[group*i+group-1]
	}
}

// part returns the number of the first child of the group that slice k belongs to.
func (p *inner) part(k uint64) int {
	at := 0
	if p.pivot(0) <= k {
		at = group
	}
	if p.pivot(1) <= k {
		at = 2 * group
	}
	return at
}

// route returns the number of the child for slice k. It compares with the pivots, and then with
// seven separators in a row, without a branch that depends on k.
func (p *inner) route(k uint64) int { return p.routeIn(p.part(k), k) }

// routeIn is route for one whose group is known. The group's last separator is above k, or it is
// the largest number.
func (p *inner) routeIn(at int, k uint64) int {
	s := (*[group]uint64)(p.seps[at : at+group])
	n := 0
	if atomic.LoadUint64(&s[0]) <= k {
		n = 1
	}
	if atomic.LoadUint64(&s[1]) <= k {
		n = 2
	}
	if atomic.LoadUint64(&s[2]) <= k {
		n = 3
	}
	if atomic.LoadUint64(&s[3]) <= k {
		n = 4
	}
	if atomic.LoadUint64(&s[4]) <= k {
		n = 5
	}
	if atomic.LoadUint64(&s[5]) <= k {
		n = 6
	}
	if atomic.LoadUint64(&s[6]) <= k {
		n = 7
	}
	return min(at+n, p.size()-1) // the largest slice is not below what fills the rest
}

// size returns the number of children.
func (p *inner) size() int { return int(atomic.LoadUint32(&p.used)) + 1 }

// list appends the children of p, which is locked, to buf.
func (p *inner) list(buf []*node) []*node {
	return append(buf, p.kids[:p.size()]...)
}

// kidBuf has room for the children of two nodes.
type kidBuf [2 * maxKids]*node
