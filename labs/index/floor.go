package main

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/userspace-rpc/erpc/gopt"
)

// floor is the least program that has the memory accesses of the index, and nothing else: nodes of
// its sizes, as full as its own are, anywhere in memory. It is told where a key is, so it compares
// nothing on its way to a leaf, and nobody may write to it. The index cannot be faster than this.
type floor struct {
	inners []*floorInner // in the order of keys
	at     []uint32      // at[i]: the leaf of keys[i]
	root   *floorUpper   // made when the row search needs it
	levels int           // of floorUppers
}

const (
	floorPlaces = 56 // of a leaf
	floorKeys   = 39 // in a leaf
	floorKids   = 17 // of an inner node
	floorLines  = 18 // of a leaf
)

type floorInner struct {
	head [8]uint64
	seps [24]uint64
	kids [24]*floorLeaf
}

// floorLeaf has a word of the runtime's before it, which makes its fields lines.
type floorLeaf struct {
	_     *floorLeaf // so that the collector treats it as it does a leaf
	set   uint64     // places that are keys
	least uint64
	_     [4]uint64
	marks [8]uint64 // a byte for each place
	order [64]uint8
	_     [8]uint64
	pairs [floorPlaces]entry
}

// newFloor has the keys of b.
func newFloor(b *bench) *floor {
	sorted := b.sorted()
	f := &floor{at: make([]uint32, len(b.keys))}
	n := (len(sorted) + floorKeys - 1) / floorKeys
	f.inners = make([]*floorInner, (n+floorKids-1)/floorKids)
	// Keys are random, so in the order of their insertion leaves are made in a random order.
	rank := make([]uint32, len(b.keys))
	for r, i := range sorted {
		rank[i] = uint32(r)
		f.at[i] = uint32(r / floorKeys)
	}
	places := rand.New(rand.NewPCG(5, 6)).Perm(floorKeys)
	for i, key := range b.keys {
		at := f.at[i]
		p := &f.inners[at/floorKids]
		if *p == nil {
			*p = new(floorInner)
		}
		l := &(*p).kids[at%floorKids]
		if *l == nil {
			*l = new(floorLeaf)
		}
		r := int(rank[i] % floorKeys)
		(*l).put(places[r], r, entry{key, uint64(i)})
	}
	return f
}

// sorted returns the numbers of the keys in their order.
func (b *bench) sorted() []uint32 {
	list := make([]uint32, len(b.keys))
	for i := range list {
		list[i] = uint32(i)
	}
	slices.SortFunc(list, func(i, j uint32) int { return cmp.Compare(b.keys[i], b.keys[j]) })
	return list
}

// put puts a pair in a place, the r-th in order.
func (l *floorLeaf) put(place, r int, e entry) {
	if r == 0 {
		l.least = e.key
	}
	l.set |= 1 << place
	l.marks[place/8] |= floorMark(e.key) << (place % 8 * 8)
	l.order[r] = uint8(place)
	l.pairs[place] = e
}

func floorMark(k uint64) uint64 { return k * 0x9E37_79B9_7F4A_7C15 >> 56 }

// match returns the places that may have a key, a bit each.
func (l *floorLeaf) match(k uint64) (places uint64) {
	const ones, tops = 0x0101_0101_0101_0101, 0x8080_8080_8080_8080
	all := floorMark(k) * ones
	for i, m := range l.marks[:floorPlaces/8] {
		x := m ^ all
		x = (x - ones) &^ x & tops
		places |= x >> 7 * 0x0102_0408_1020_4080 >> 56 << (8 * i)
	}
	return places & l.set
}

// among looks for a key in some places.
func (l *floorLeaf) among(places, k uint64) (uint64, bool) {
	for ; places != 0; places &= places - 1 {
		if p := &l.pairs[bits.TrailingZeros64(places)]; p.key == k {
			return p.value, true
		}
	}
	return 0, false
}

// kid returns where the pointer to a leaf lies.
func (f *floor) kid(at uint32) **floorLeaf { return &f.inners[at/floorKids].kids[at%floorKids] }

// get reads a word of an inner node, then the leaf that it leads to.
func (f *floor) get(e entry) (uint64, bool) {
	kid := [1]*floorLeaf{*f.kid(f.at[e.value])}
	gopt.Prefetch(kid[:], floorLines)
	return kid[0].among(kid[0].match(e.key), e.key)
}

// getBatch is get for several keys at once.
func (f *floor) getBatch(b *bench, batch *[16]entry) {
	var heads [16]*floorInner
	var kids [16]**floorLeaf
	var leaves [16]*floorLeaf
	var places [16]uint64
	var pairs [16]*entry
	for i, e := range batch {
		at := f.at[e.value]
		heads[i], kids[i] = f.inners[at/floorKids], f.kid(at)
	}
	gopt.Prefetch(heads[:], 1)
	gopt.Prefetch(kids[:], 1)
	for i, k := range kids {
		leaves[i] = *k
	}
	gopt.Prefetch(leaves[:], 2)
	for i, l := range leaves {
		places[i] = l.match(batch[i].key)
		pairs[i] = &l.pairs[min(bits.TrailingZeros64(places[i]), floorPlaces-1)]
	}
	gopt.Prefetch(pairs[:], 1)
	for i, l := range leaves {
		v, ok := l.among(places[i], batch[i].key)
		b.check(v, batch[i].value, ok)
	}
}
