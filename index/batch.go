package index

import (
	"math/bits"
	"unsafe"

	"github.com/userspace-rpc/erpc/gopt"
)

// batch is how many lookups run interleaved.
const batch = gopt.Batch

// Cache lines that lookups ask for ahead.
const (
	innerLines = 7  // all of it
	leafLines  = 18 // all of it
	headLines  = 2  // what says where a key is
)

// hotLevels is how many levels of inner nodes below the root are in the cache anyhow: some hundred
// nodes at most, which are used all the time. To ask for them takes longer than to find them there.
const hotLevels = 2

// findBatch looks up to batch keys up: cells[i] is the value of keys[i], or nil. All lookups go
// down one level before the first one goes down the next; see package gopt. Of an inner node that
// is not in the cache they ask for the first line, and then for the two that this one leads to.
func (t *tree[C]) findBatch(keys [][]byte, cells *[batch]*C) {
	var nodes [batch]*node
	var slices [batch]uint64
	var parts [batch]uint8
	at := nodes[:len(keys)]
	root := t.root.Load()
	for i, key := range keys {
		slices[i], _ = head(key)
		nodes[i] = root
	}
	for level := int(root.level); level > 0; level-- {
		if int(root.level)-level > hotLevels {
			stepFar(at, &slices, &parts, level)
		} else {
			stepNear(at, &slices, level)
		}
		switch {
		case level == 1:
			gopt.Prefetch(at, headLines)
		case int(root.level)-level >= hotLevels:
			gopt.Prefetch(at, 1)
		}
	}
	t.findInLeaves(at, keys, &slices, cells)
}

// findInLeaves ends lookups in leaves of the first layer, which never goes.
func (t *tree[C]) findInLeaves(
	at []*node, keys [][]byte, slices *[batch]uint64, cells *[batch]*C,
) {
	var leaves [batch]*leaf[C]
	var states [batch]state
	var places [batch]uint64
	var lines [batch]*pair[C]
	for i, n := range at {
		i &= batch - 1
		l, s := heir[C](n, slices[i])
		m := l.match(s, slices[i])
		leaves[i], states[i], places[i] = l, s, m
		lines[i] = &l.pairs[bits.TrailingZeros64(m|1<<(width-1))]
	}
	gopt.Prefetch(lines[:len(at)], 1)
	for i, key := range keys {
		i &= batch - 1
		kind := uint8(min(len(key), suffixed))
		l := leaves[i]
		place := l.among(places[i], states[i], slices[i], kind)
		cells[i] = l.cell(place, kind, key)
	}
}

// cell returns the value of an entry in a place, or of the longer key that it may lead to; nil
// without a place.
func (l *leaf[C]) cell(place int, kind uint8, key []byte) *C {
	if place < 0 {
		return nil
	}
	if kind <= 8 {
		return &l.pairs[place].val
	}
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.find(key[8:])
	}
	if string(key[8:]) != x.rest {
		return nil
	}
	return &l.pairs[place].val
}

// step returns at[i] or its heir for slice k. It returns nil if that is below level, because the
// tree became lower; at[i] is where the lookup is now.
func step(at []*node, i int, k uint64, level int) *inner {
	n := at[i]
	if int(n.level) < level {
		return nil
	}
	if h := n.moved.Load(); h != nil {
		n = h.pick(k)
		at[i] = n
		if int(n.level) < level {
			return nil
		}
	}
	return n.inner()
}

// stepNear takes all lookups from a level to the one below.
func stepNear(at []*node, slices *[batch]uint64, level int) {
	for i := range at {
		k := slices[i&(batch-1)]
		if p := step(at, i, k, level); p != nil {
			at[i] = p.kid(p.route(k))
		}
	}
}

// stepFar is stepNear for nodes of which the first line has been asked for.
func stepFar(at []*node, slices *[batch]uint64, parts *[batch]uint8, level int) {
	var lines [2 * batch]*[group]uint64
	n := 0
	for i := range at {
		k := slices[i&(batch-1)]
		if p := step(at, i, k, level); p != nil {
			part := p.part(k)
			parts[i&(batch-1)] = uint8(part)
			lines[n&(2*batch-1)] = (*[group]uint64)(p.seps[part : part+group])
			lines[(n+1)&(2*batch-1)] = (*[group]uint64)(unsafe.Pointer(&p.kids[part]))
			n += 2
		}
	}
	gopt.Prefetch(lines[:n], 1)
	for i, n := range at {
		if int(n.level) >= level {
			p, k := n.inner(), slices[i&(batch-1)]
			at[i] = p.kid(p.routeIn(int(parts[i&(batch-1)]), k))
		}
	}
}

// GetBatch looks up all keys, interleaved: values[i] and ok[i] are those of keys[i]. Both slices
// are at least as long as keys. It takes no lock and does not allocate. Each lookup is linearizable
// by itself.
func (m *Map) GetBatch(keys [][]byte, values []uint64, ok []bool) {
	var cells [batch]*word
	for len(keys) > 0 {
		n := min(len(keys), batch)
		m.tree.findBatch(keys[:n], &cells)
		for i, c := range cells[:n] {
			if ok[i] = c != nil; c != nil {
				values[i] = c.Load()
			} else {
				values[i] = 0
			}
		}
		keys, values, ok = keys[n:], values[n:], ok[n:]
	}
}
