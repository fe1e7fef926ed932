package bptree_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/bptree"
)

func TestTree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 15, 16, 17, 256, 257, 5000} {
		for _, span := range []uint64{uint64(2*n + 1), ^uint64(0)} {
			want := map[uint64]uint64{}
			for len(want) < n {
				want[r.Uint64N(span)] = r.Uint64()
			}
			if n > 2 && span == ^uint64(0) {
				want[span], want[0] = 1, 2
			}
			sameTree(t, want, r)
		}
	}
}

// FuzzTree: the fuzzer chooses how many keys there are, where they begin and how far apart they
// lie.
func FuzzTree(f *testing.F) {
	f.Add(uint16(16), uint64(0), uint64(1), uint64(1))
	f.Add(uint16(257), ^uint64(0)-512, uint64(2), uint64(2))
	f.Add(uint16(5000), uint64(1)<<63, uint64(1)<<40, uint64(3))
	f.Fuzz(func(t *testing.T, n uint16, first, gap, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 4))
		want := map[uint64]uint64{}
		for k := first; len(want) < int(n)%8192; {
			want[k] = r.Uint64()
			step := 1 + r.Uint64N(max(gap, 1))
			if k += step; k < step { // behind the largest number
				break
			}
		}
		sameTree(t, want, r)
	})
}

func sameTree(t *testing.T, want map[uint64]uint64, r *rand.Rand) {
	t.Helper()
	var keys, values, look []uint64
	for k := range want {
		keys = append(keys, k)
		look = append(look, k, k+1, k-1, r.Uint64())
	}
	slices.Sort(keys)
	for _, k := range keys {
		values = append(values, want[k])
	}
	look = append(look, 0, ^uint64(0))
	tree, err := bptree.New(keys, values)
	if err != nil || tree.Len() != len(keys) {
		t.Fatalf("%d of %d keys: %v", tree.Len(), len(keys), err)
	}
	got, ok := make([]uint64, len(look)), make([]bool, len(look))
	tree.GetBatch(look, got, ok)
	for i, k := range look {
		w, had := want[k]
		if v, there := tree.Get(k); v != w || there != had || got[i] != w || ok[i] != had {
			t.Fatalf("%d keys, key %#x: %d %v, in the batch %d %v, want %d %v",
				len(keys), k, v, there, got[i], ok[i], w, had)
		}
	}
}

func TestOrder(t *testing.T) {
	if _, err := bptree.New([]uint64{1, 1}, []uint64{1, 2}); !errors.Is(err, bptree.ErrOrder) {
		t.Errorf("a key twice: %v", err)
	}
	if _, err := bptree.New([]uint64{1}, nil); !errors.Is(err, bptree.ErrOrder) {
		t.Errorf("no value: %v", err)
	}
}
