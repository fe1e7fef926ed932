package bptree

import (
	"errors"
	"math/bits"

	"github.com/userspace-rpc/erpc/gopt"
)

//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .

// ErrOrder means that keys are not strictly ascending, or that there are not as many values.
var ErrOrder = errors.New("bptree: keys out of order")

const fan = 16

// node has the first keys of its children but the first. Behind the last child: the largest number.
type node [fan]uint64

// Tree maps numbers to numbers.
type Tree struct {
	keys   []node // leaves: keys in order, the last one filled with its last key
	values []node
	n      int
	levels [][]node // the root first
}

// New returns a tree of ascending keys and their values, which it copies. The error is ErrOrder.
func New(keys, values []uint64) (*Tree, error) {
	if len(keys) != len(values) {
		return nil, ErrOrder
	}
	size := (len(keys) + fan - 1) / fan
	t := &Tree{keys: make([]node, size), values: make([]node, size), n: len(keys)}
	last := uint64(0)
	for i, k := range keys {
		if i > 0 && k <= keys[i-1] {
			return nil, ErrOrder
		}
		t.keys[i/fan][i%fan], t.values[i/fan][i%fan] = k, values[i]
		last = k
	}
	for i := len(keys); i < size*fan; i++ {
		t.keys[i/fan][i%fan] = last
		t.values[i/fan][i%fan] = t.values[(len(keys)-1)/fan][(len(keys)-1)%fan]
	}
	first := make([]uint64, size)
	for i := range t.keys {
		first[i] = t.keys[i][0]
	}
	for len(first) > 1 {
		level := make([]node, (len(first)+fan-1)/fan)
		above := make([]uint64, len(level))
		for i := range level {
			above[i] = first[i*fan]
			for j := range level[i] {
				level[i][j] = ^uint64(0)
				if at := i*fan + j + 1; j < fan-1 && at < len(first) {
					level[i][j] = first[at]
				}
			}
		}
		t.levels = append([][]node{level}, t.levels...)
		first = above
	}
	return t, nil
}

// Len returns the number of keys.
func (t *Tree) Len() int { return t.n }

// below returns how many of the keys are not above k.
func (n *node) below(k uint64) (count uint32) {
	for _, x := range n {
		if x <= k {
			count++
		}
	}
	return count
}

// belowAll is below without branches that depend on the keys: it subtracts, and counts who borrows.
// In a batch, whose lines have been asked for, it takes less time. A single lookup does better with
// branches, by which the processor guesses where to read next.
func (n *node) belowAll(k uint64) (count uint32) {
	above := uint64(0)
	for i := 0; i < fan; i += 4 {
		_, a := bits.Sub64(k, n[i], 0)
		_, b := bits.Sub64(k, n[i+1], 0)
		_, c := bits.Sub64(k, n[i+2], 0)
		_, d := bits.Sub64(k, n[i+3], 0)
		above += a + b + c + d
	}
	return fan - uint32(above)
}

// Get returns the value of k.
//
//gopt:batch B=32 name=getBatch with=below:belowAll
func (t *Tree) Get(k uint64) (value uint64, ok bool) {
	if t.n == 0 {
		return 0, false
	}
	at := uint32(0)
	for l := range t.levels {
		n := &t.levels[l][at]
		gopt.Expensive(n)
		at = t.child(l, at*fan+n.below(k))
	}
	gopt.Expensive(&t.keys[at])
	gopt.Expensive(&t.values[at])
	return t.inLeaf(at, t.keys[at].below(k), k)
}

// child returns child at of a level, or the last one if there is none: the largest number is not
// below what fills the last node.
func (t *Tree) child(level int, at uint32) uint32 {
	last := len(t.keys) - 1
	if level+1 < len(t.levels) {
		last = len(t.levels[level+1]) - 1
	}
	return min(at, uint32(last))
}

// inLeaf looks in leaf at, of whose keys i are not above k. The last ones may be there more than
// once.
func (t *Tree) inLeaf(at, i uint32, k uint64) (value uint64, ok bool) {
	if i == 0 || t.keys[at][i-1] != k {
		return 0, false
	}
	return t.values[at][i-1], true
}

// GetBatch looks all keys up, interleaved: values[i] and ok[i] are those of keys[i]. Both are at
// least as long as keys.
func (t *Tree) GetBatch(keys, values []uint64, ok []bool) {
	var at [gopt.Batch]uint32
	for len(keys) > 0 {
		n := min(len(keys), gopt.Batch)
		if t.n == 0 {
			clear(values[:n])
			clear(ok[:n])
			keys, values, ok = keys[n:], values[n:], ok[n:]
			continue
		}
		clear(at[:])
		for l, level := range t.levels {
			if l > 0 {
				gopt.PrefetchAt(level, at[:n], 2)
			}
			for i, k := range keys[:n] {
				at[i] = t.child(l, at[i]*fan+level[at[i]].belowAll(k))
			}
		}
		gopt.PrefetchAt(t.keys, at[:n], 2)
		gopt.PrefetchAt(t.values, at[:n], 2)
		for i, k := range keys[:n] {
			values[i], ok[i] = t.inLeaf(at[i], t.keys[at[i]].belowAll(k), k)
		}
		keys, values, ok = keys[n:], values[n:], ok[n:]
	}
}
