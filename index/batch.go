package index

import "github.com/userspace-rpc/erpc/gopt"

// batch is how many lookups run interleaved.
const batch = gopt.Batch

// Cache lines that lookups ask for ahead.
const (
	innerLines = 8 // all of it
	leafLines  = 5 // all of it
	sumLines   = 3 // without the keys
)

// hotLevels is how many levels of inner nodes below the root are in the cache anyhow: some hundred
// nodes at most, which are used all the time. To ask for them takes longer than to find them there.
const hotLevels = 2

// findBatch looks up to batch keys up: cells[i] is the value of keys[i], or nil. All lookups go
// down one level before the first one goes down the next; see package gopt.
func (t *tree[C]) findBatch(keys [][]byte, cells *[batch]*C) {
	var nodes [batch]*node
	var slices [batch]uint64
	at := nodes[:len(keys)]
	root := t.root.Load()
	for i, key := range keys {
		slices[i], _ = head(key)
		nodes[i] = root
	}
	for level := int(root.level); level > 0; level-- {
		lines := innerLines
		if level == 1 {
			lines = leafLines
		}
		for i, n := range at {
			if int(n.level) < level {
				continue // the tree became lower
			}
			k := slices[i]
			if h := n.moved.Load(); h != nil {
				if n = h.pick(k); int(n.level) < level {
					at[i] = n
					continue
				}
			}
			p := n.inner()
			at[i] = p.kid(p.route(k))
		}
		if level == 1 || int(root.level)-level >= hotLevels {
			gopt.Prefetch(at, lines)
		}
	}
	for i, n := range at {
		cells[i] = t.inLeaf(n, slices[i], keys[i])
	}
}

// inLeaf ends a lookup in the leaf n of the first layer, which never goes.
func (t *tree[C]) inLeaf(n *node, slice uint64, key []byte) *C {
	l, o := heir[C](n, slice)
	kind := uint8(min(len(key), suffixed))
	place := l.find(o, slice, kind)
	if place < 0 {
		return nil
	}
	if kind <= 8 {
		return &l.vals[place]
	}
	x := &l.long[place]
	if x.layer != nil {
		return x.layer.find(key[8:])
	}
	if string(key[8:]) != x.rest {
		return nil
	}
	return &l.vals[place]
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
