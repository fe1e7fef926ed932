package main

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/gopt"
)

// floor is the least program that has the memory accesses of the index, and nothing else: nodes of
// its sizes, as full as its own are, anywhere in memory. It is told where a key is, so it compares
// nothing on its way, and nobody may write to it. The index cannot be faster than this.
type floor struct {
	inners []*floorInner // in the order of keys
	at     []uint32      // at[i]: the leaf of keys[i]
	root   *floorUpper   // made when the row search needs it
	levels int           // of floorUppers
}

const (
	floorKeys = 11 // in a leaf
	floorKids = 22 // of an inner node
)

type floorInner struct {
	head [8]uint64
	seps [32]uint64
	kids [32]*floorLeaf
}

type floorLeaf struct {
	_    *floorLeaf // so that the collector treats it as it does a leaf
	head [7]uint64
	vals [16]uint64
	keys [16]uint64
}

// newFloor has the keys of b.
func newFloor(b *bench) *floor {
	sorted := make([]uint32, len(b.keys))
	for i := range sorted {
		sorted[i] = uint32(i)
	}
	slices.SortFunc(sorted, func(i, j uint32) int {
		if b.keys[i] < b.keys[j] {
			return -1
		}
		return 1
	})
	f := &floor{at: make([]uint32, len(b.keys))}
	n := (len(sorted) + floorKeys - 1) / floorKeys
	f.inners = make([]*floorInner, (n+floorKids-1)/floorKids)
	// Keys are random, so in the order of their insertion leaves are made in a random order.
	rank := make([]uint32, len(b.keys))
	for r, i := range sorted {
		rank[i] = uint32(r)
		f.at[i] = uint32(r / floorKeys)
	}
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
		place := rank[i] % floorKeys
		(*l).keys[place], (*l).vals[place] = key, uint64(i)
	}
	return f
}

// get reads a word of an inner node, then the leaf that it leads to.
func (f *floor) get(e entry) (uint64, bool) {
	at := f.at[e.value]
	p := f.inners[at/floorKids]
	kid := [1]*floorLeaf{p.kids[at%floorKids]}
	gopt.Prefetch(kid[:], 5)
	for i, k := range &kid[0].keys {
		if k == e.key {
			return kid[0].vals[i] + p.head[1] + kid[0].head[1], true
		}
	}
	return 0, false
}

// scan calls fn for n keys from that of e on.
func (f *floor) scan(e entry, n int, fn func(key []byte, v uint64) bool) {
	var key [8]byte
	var ahead [16]*floorLeaf
	at := f.at[e.value]
	last := uint32(len(f.at)-1) / floorKeys
	for i := range ahead {
		j := min(at+uint32(i), last)
		ahead[i] = f.inners[j/floorKids].kids[j%floorKids]
	}
	gopt.Prefetch(ahead[:], 5)
	for n > 0 && at <= last {
		l := f.inners[at/floorKids].kids[at%floorKids]
		for i, k := range l.keys[:floorKeys] {
			if k < e.key {
				continue
			}
			binary.BigEndian.PutUint64(key[:], k)
			if n--; !fn(key[:], l.vals[i]) || n == 0 {
				return
			}
		}
		at++
	}
}

// floors are rows for it.
func (b *bench) floors() []row {
	get := func(each time.Duration) float64 {
		b.needFloor()
		return timed(each, chunk, func() {
			for _, e := range b.next(chunk) {
				v, ok := b.floor.get(e)
				b.check(v, e.value, ok)
			}
		})
	}
	scan := func(each time.Duration) float64 {
		b.needFloor()
		return timed(each, 16, func() {
			for _, e := range b.next(16) {
				b.floor.scan(e, 128, func(_ []byte, v uint64) bool { b.sum += v; return true })
			}
		})
	}
	search := func(each time.Duration) float64 {
		b.needFloor()
		b.floor.needUppers()
		return timed(each, chunk, func() {
			for _, e := range b.next(chunk) {
				v, ok := b.floor.search(e.key)
				b.check(v, e.value, ok)
			}
		})
	}
	return []row{
		{"floor search", "get btree", 0, search},
		{"floor search again", "get btree locked", 0, search},
		{"floor get", "get btree", 0, get},
		{"floor get again", "get btree locked", 0, get},
		{"floor scan 128", "scan 128 btree", 0, scan},
		{"floor hot scan 128", "hot scan 128 btree", 0, b.hot(scan)},
	}
}

func (b *bench) needFloor() {
	if b.floor == nil {
		b.floor = newFloor(b)
	}
}
