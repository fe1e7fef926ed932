package cuckoo

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/turns"
)

// unmarked is Get without marks.
func (t *Table) unmarked(k uint64) (value uint64, ok bool) {
	h := hash(k)
	b := &t.buckets[t.first(h)]
	i := b.find(k)
	if i == ways {
		b = &t.buckets[t.second(h)]
		i = b.find(k)
	}
	if i == ways || k == 0 {
		return 0, false
	}
	return b.values[i], true
}

// TestGenerated: the generated function answers as Get does, for keys that are there and keys that
// are not, in batches of any size.
func TestGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	table := New(2000)
	for range 1900 {
		if err := table.Put(1+r.Uint64N(3000), r.Uint64()); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		keys, values, ok := make([]uint64, n), make([]uint64, n), make([]bool, n)
		for i := range keys {
			keys[i] = r.Uint64N(4000)
		}
		table.getBatch(keys, values, ok)
		for i, k := range keys {
			if v, there := table.Get(k); v != values[i] || there != ok[i] {
				t.Fatalf("key %d: %d %v, want %d %v", k, values[i], ok[i], v, there)
			}
		}
	}
}

func BenchmarkTable(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "cuckoo", func(size int) turns.Set {
		n := 1 << (bits.Len(uint(size)) - 1) / 128 * ways * 8 / 10
		t := New(n)
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = r.Uint64() | 1
			if err := t.Put(keys[i], uint64(i)); err != nil {
				b.Fatal(err)
			}
		}
		look, values := make([]uint64, turns.Lookups), make([]uint64, turns.Lookups)
		ok := make([]bool, turns.Lookups)
		return turns.Set{
			Draw: func() {
				for i := range look {
					look[i] = keys[r.IntN(n)]
				}
			},
			Result: func(i int) uint64 { return values[i] },
			Ways: turns.Ways(
				func(from, to int) {
					for i := from; i < to; i++ {
						values[i], ok[i] = t.Get(look[i])
					}
				},
				func(from, to int) {
					for i := from; i < to; i++ {
						values[i], ok[i] = t.unmarked(look[i])
					}
				},
				func(from, to int) { t.GetBatch(look[from:to], values[from:], ok[from:]) },
				func(from, to int) { t.getBatch(look[from:to], values[from:], ok[from:]) }),
		}
	})
}
