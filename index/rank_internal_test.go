package index

import (
	"math/rand/v2"
	"testing"
)

// TestRank compares rank with a count over all used places, deleted ones too: leaves of any size,
// with keys of 8 bytes, and with keys of any length that share few slices.
func TestRank(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		slice := func() uint64 { return r.Uint64() }
		kinds := []uint8{8}
		if seed%2 == 1 {
			slice = func() uint64 { return r.Uint64N(12) << 56 }
			kinds = []uint8{1, 2, 5, 8, suffixed}
		}
		l := newLeaf[word](0, ^uint64(0), nil)
		for range 4 * width {
			s := l.load()
			used := s.used()
			for range 3 {
				k, kind := slice(), kinds[r.IntN(len(kinds))]
				switch r.IntN(4) {
				case 0:
					k = r.Uint64N(2) - 1 // the least and the largest slice
				case 1:
					if used > 0 {
						k = l.pairs[r.IntN(used)].key
					}
				}
				if got, want := l.rank(s, k, kind), countBelow(l, used, k, kind); got != want {
					t.Fatalf("seed %d, %d used: rank %d of %#x, %d, want %d", seed, used, got, k, kind, want)
				}
			}
			e := entry[word]{key: slice(), kind: kinds[r.IntN(len(kinds))]}
			if used > 0 && r.IntN(4) == 0 {
				e.key = l.pairs[r.IntN(used)].key // a deleted one may come again
			}
			if used == width || l.find(s, e.key, e.kind) >= 0 {
				continue
			}
			if e.kind > 8 {
				e.long.rest = "rest"
			}
			place := l.put(l.rank(s, e.key, e.kind), &e, 0)
			if r.IntN(5) == 0 {
				l.state.Store(uint64(l.load().without(place)))
			}
		}
	}
}

// countBelow is rank, by a look at each used place.
func countBelow(l *leaf[word], used int, k uint64, kind uint8) (n int) {
	for i := range used {
		at := l.pairs[i].key
		if at < k || at == k && min(l.kind(i), suffixed) < kind {
			n++
		}
	}
	return n
}
