package index

import (
	"encoding/binary"
	"testing"
)

// TestBatchHigh: batches in a tree of six levels, more than a small map has. They ask for the lines
// of its lower inner nodes one after the other.
func TestBatchHigh(t *testing.T) {
	const levels, step = 5, 10
	var nodes []*node
	for i := range 1 << levels {
		low, high := uint64(i*2*step), uint64((i+1)*2*step-1)
		if i == 1<<levels-1 {
			high = ^uint64(0)
		}
		var list []entry[word]
		for k := low; k < low+2*step; k += step {
			list = append(list, entry[word]{key: k, kind: 8, val: word{k + 1}})
		}
		nodes = append(nodes, &newLeaf(low, high, list).node)
	}
	for len(nodes) > 1 {
		for i := range len(nodes) / 2 {
			nodes[i] = &newInner(nodes[2*i : 2*i+2]).node
		}
		nodes = nodes[:len(nodes)/2]
	}
	m := NewMap()
	m.tree.root.Store(nodes[0])
	keys := make([][]byte, 2*step<<levels)
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	for i := range keys {
		keys[i] = binary.BigEndian.AppendUint64(nil, uint64(i))
	}
	m.GetBatch(keys, values, ok)
	for i := range keys {
		want, there := uint64(0), i%step == 0
		if there {
			want = uint64(i) + 1
		}
		if values[i] != want || ok[i] != there {
			t.Fatalf("key %d: %d, %v, want %d, %v", i, values[i], ok[i], want, there)
		}
	}
}
