package bptree

import (
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/turns"
)

// unmarked is Get without marks.
func (t *Tree) unmarked(k uint64) (value uint64, ok bool) {
	if t.n == 0 {
		return 0, false
	}
	at := uint32(0)
	for l, level := range t.levels {
		at = t.child(l, at*fan+level[at].below(k))
	}
	return t.inLeaf(at, t.keys[at].below(k), k)
}

// TestGenerated: the generated function finds what Get does, in trees of any height.
func TestGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 15, 16, 17, 256, 257, 5000} {
		keys, values := make([]uint64, size), make([]uint64, size)
		for i := range keys {
			keys[i], values[i] = uint64(3*i), r.Uint64()
		}
		tree, err := New(keys, values)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			look, got, ok := make([]uint64, n), make([]uint64, n), make([]bool, n)
			for i := range look {
				look[i] = r.Uint64N(uint64(3*size + 5))
			}
			tree.getBatch(look, got, ok)
			for i, k := range look {
				if v, there := tree.Get(k); v != got[i] || there != ok[i] {
					t.Fatalf("%d keys, key %d: %d %v, want %d %v", size, k, got[i], ok[i], v, there)
				}
			}
		}
	}
}

func BenchmarkTable(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "B+tree", func(size int) turns.Set {
		n := size / 17
		keys, list := make([]uint64, n), make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i) << 20
		}
		t, err := New(keys, list)
		if err != nil {
			b.Fatal(err)
		}
		look, values := make([]uint64, turns.Lookups), make([]uint64, turns.Lookups)
		ok := make([]bool, turns.Lookups)
		one := func(get func(k uint64) (uint64, bool)) func(from, to int) {
			return func(from, to int) {
				for i := from; i < to; i++ {
					values[i], ok[i] = get(look[i])
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range look {
					look[i] = keys[r.IntN(n)]
				}
			},
			Result: func(i int) uint64 { return values[i] },
			Ways: turns.Ways(one(t.Get), one(t.unmarked),
				func(from, to int) { t.GetBatch(look[from:to], values[from:], ok[from:]) },
				func(from, to int) { t.getBatch(look[from:to], values[from:], ok[from:]) }),
		}
	})
}
