package main

import (
	"encoding/binary"
	"slices"
	"sort"
)

// keyset is the numbered keys of a seed: key i has 8 bytes that look random, and the value i+1.
type keyset struct {
	n, seed uint64
	// In order, with the sum of the values up to each: made when sums are checked.
	sorted []uint64
	sums   []uint64
}

// key returns key i; no two are the same (the finalizer of splitmix64 is a bijection).
func (k *keyset) key(i uint64) uint64 {
	x := i + k.seed*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// put writes key i to b.
func (k *keyset) put(b *[8]byte, i uint64) { binary.BigEndian.PutUint64(b[:], k.key(i)) }

// sort prepares sum.
func (k *keyset) sort() {
	type pair struct{ key, value uint64 }
	all := make([]pair, k.n)
	for i := range all {
		all[i] = pair{k.key(uint64(i)), uint64(i) + 1}
	}
	slices.SortFunc(all, func(a, b pair) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	k.sorted, k.sums = make([]uint64, k.n), make([]uint64, k.n+1)
	for i, p := range all {
		k.sorted[i] = p.key
		k.sums[i+1] = k.sums[i] + p.value
	}
}

// sum returns what a sum of the n keys after key i is.
func (k *keyset) sum(i uint64, n int) (sum uint64, count int) {
	key := k.key(i)
	at := sort.Search(len(k.sorted), func(j int) bool { return k.sorted[j] > key })
	end := min(at+n, len(k.sorted))
	return k.sums[end] - k.sums[at], end - at
}
