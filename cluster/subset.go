package cluster

import (
	"cmp"
	"hash/fnv"
	"math/bits"
	"slices"
)

// Subset returns the k entries that a client has sessions with, in the order of the ring; all of
// them if there are no more. Client is its number among the clients, from 0. Entries with numbers
// are best all of one zone, of which numbers are. The result does not depend on the order of
// entries. Removing an entry changes the subsets of those clients alone that have it, by one entry
// each, and so does adding one.
func Subset(entries []Entry, client uint64, k int) []Entry {
	return ringOf(entries).take(client, k)
}

// ring has entries in the order of their places.
type ring []Entry

func ringOf(entries []Entry) ring {
	r := slices.Clone(entries)
	slices.SortFunc(r, func(a, b Entry) int {
		if c := cmp.Compare(place(&a), place(&b)); c != 0 {
			return c
		}
		return cmp.Compare(a.Addr, b.Addr)
	})
	return r
}

// take returns the k entries from a client's place on.
func (r ring) take(client uint64, k int) []Entry {
	at := bits.Reverse64(client)
	first, _ := slices.BinarySearchFunc(r, at, func(e Entry, at uint64) int {
		return cmp.Compare(place(&e), at)
	})
	list := make([]Entry, min(k, len(r)))
	n := copy(list, r[first:])
	copy(list[n:], r)
	return list
}

// place returns where an entry stands on the ring: at the point of van der Corput's sequence that
// has its number.
func place(e *Entry) uint64 {
	if e.Number > 0 {
		return bits.Reverse64(uint64(e.Number - 1))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(e.Addr)) // never fails
	// FNV leaves the high bits of short texts alike: one round of splitmix64 spreads them.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
