package main

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/gopt"
)

// floorScan is the least program that a scan of the index can be compared with: leaves in a list,
// as full as the index's own, anywhere in memory. Pairs lie in their order. Words that a writer
// might change are loaded atomically, and a version is compared for each leaf. The program is told
// which leaf a key is in, so it goes down no tree. It has no place for deleted keys, for longer
// ones, or for marks, and nobody can write to it.
type floorScan struct {
	leaves []*floorSorted // in the order of keys
	at     []uint32       // at[i]: the leaf of keys[i]
}

// floorSorted has a word of the runtime's before it, which makes its fields lines.
type floorSorted struct {
	next    *floorSorted
	version uint64
	used    uint64
	_       [4]uint64
	pairs   [floorPlaces]entry
}

// newFloorScan has the keys of b. Leaves are made in the order of their first insertion.
func newFloorScan(b *bench) *floorScan {
	sorted := b.sorted()
	f := &floorScan{at: make([]uint32, len(b.keys))}
	f.leaves = make([]*floorSorted, (len(sorted)+floorKeys-1)/floorKeys)
	for r, i := range sorted {
		f.at[i] = uint32(r / floorKeys)
	}
	for i := range b.keys {
		if l := &f.leaves[f.at[i]]; *l == nil {
			*l = new(floorSorted)
		}
	}
	for r, i := range sorted {
		l := f.leaves[r/floorKeys]
		l.pairs[l.used] = entry{b.keys[i], uint64(i)}
		l.used++
	}
	for i, l := range f.leaves[1:] {
		f.leaves[i].next = l
	}
	return f
}

// floorPage is the index's Page.
type floorPage struct {
	keys   [][8]byte
	values []uint64
}

// fill copies n keys from that of e on, and their values. It asks for leaves as the index does.
func (f *floorScan) fill(p *floorPage, e entry, n int) {
	if cap(p.keys) < n {
		p.keys, p.values = make([][8]byte, n), make([]uint64, n)
	}
	keys, values := p.keys[:n], p.values[:n]
	at := int(f.at[e.value])
	l := f.leaves[at]
	f.ask(at, 3)
	i := l.first(e.key)
	for l != nil && n > 0 {
		version := atomic.LoadUint64(&l.version)
		got := l.copy(i, keys, values)
		if atomic.LoadUint64(&l.version) != version {
			continue
		}
		keys, values, n = keys[got:], values[got:], n-got
		if at++; n > 2*floorKeys {
			f.ask(at+2, 1)
		}
		l, i = l.next, 0
	}
	p.keys, p.values = p.keys[:cap(p.keys)-len(keys)], p.values[:cap(p.values)-len(values)]
}

// scan calls fn with n keys from that of e on, and their values. It compares no version: a key that
// has been passed to fn cannot be taken back.
func (f *floorScan) scan(e entry, n int, fn func(key []byte, v uint64) bool) {
	var key [8]byte
	at := int(f.at[e.value])
	l := f.leaves[at]
	f.ask(at, 3)
	for i := l.first(e.key); l != nil && n > 0; l, i = l.next, 0 {
		pairs := l.pairs[i:min(l.used, floorPlaces)]
		pairs = pairs[:min(len(pairs), n)]
		for j := range pairs {
			x := &pairs[j]
			binary.BigEndian.PutUint64(key[:], atomic.LoadUint64(&x.key))
			if !fn(key[:], atomic.LoadUint64(&x.value)) {
				return
			}
		}
		n -= len(pairs)
		if at++; n > 2*floorKeys {
			f.ask(at+2, 1)
		}
	}
}

// ask asks for some leaves.
func (f *floorScan) ask(at, n int) {
	if at < len(f.leaves) {
		gopt.Prefetch(f.leaves[at:min(at+n, len(f.leaves))], 1+(floorKeys+3)/4)
	}
}

// first returns how many keys are below k.
func (l *floorSorted) first(k uint64) (n int) {
	for n < floorPlaces && atomic.LoadUint64(&l.pairs[n].key) < k {
		n++
	}
	return n
}

// copy copies what there is room for from the i-th pair on, and returns how many that is.
func (l *floorSorted) copy(i int, keys [][8]byte, values []uint64) int {
	pairs := l.pairs[i:min(l.used, floorPlaces)]
	pairs = pairs[:min(len(pairs), len(keys))]
	keys, values = keys[:len(pairs)], values[:len(pairs)]
	for j := range pairs {
		x := &pairs[j]
		binary.BigEndian.PutUint64(keys[j][:], atomic.LoadUint64(&x.key))
		values[j] = atomic.LoadUint64(&x.value)
	}
	return len(pairs)
}
