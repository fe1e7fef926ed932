package cuckoo

import (
	"fmt"
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

// unmarked is Find without marks.
func (t *Names) unmarked(name *Name) (port uint32, ok bool) {
	for ends := name.ends() & t.lengths; ends != 0; {
		size := bits.Len64(ends) - 1
		ends &^= 1 << size
		first, ok := t.table.unmarked(name.hash(size))
		for at := uint32(first); ok && at != 0; at = t.list[at-1].next {
			if e := &t.list[at-1]; int(e.size) == size && e.name == name.cut(size) {
				return e.port, true
			}
		}
	}
	return 0, false
}

// url returns the prefix of number i: two or three components, as of a host and a folder.
func url(i int) string {
	if i%3 == 0 {
		return fmt.Sprintf("/com/host%d", i)
	}
	return fmt.Sprintf("/org/h%d/dir%d", i/7, i)
}

// BenchmarkNames has 10 million prefixes as the paper, whatever the size, and names that begin with
// one of them.
func BenchmarkNames(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "names", func(int) turns.Set {
		const n = 10_000_000
		t := NewNames(n)
		for i := range n {
			if err := t.Add(url(i), uint32(i)); err != nil {
				b.Fatal(err)
			}
		}
		look, ports := make([]Name, turns.Lookups), make([]uint32, turns.Lookups)
		ok := make([]bool, turns.Lookups)
		one := func(find func(name *Name) (uint32, bool)) func(from, to int) {
			return func(from, to int) {
				for i := from; i < to; i++ {
					ports[i], ok[i] = find(&look[i])
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range look {
					look[i] = Name{}
					copy(look[i][:], url(r.IntN(n))+"/page")
				}
			},
			Result: func(i int) uint64 { return uint64(ports[i]) },
			Ways: turns.Ways(one(t.Find), one(t.unmarked), nil,
				func(from, to int) { t.FindBatch(look[from:to], ports[from:], ok[from:]) }),
		}
	})
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
