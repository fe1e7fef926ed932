package mica

import (
	"math/bits"
	"testing"
)

// checkAll holds a partition to its invariants: the counters are those of what is there, and each
// item in memory is the one that its key finds.
func checkAll(t testing.TB, p *Partition, hash func([]byte) KeyHash) {
	t.Helper()
	p.settle()
	var items, size uint64
	seen := func(pos, n uint64) {
		items++
		size += n * unit
		key := p.space().key(pos)
		if at := p.where(hash(key), key); at.b == nil || at.pos != pos {
			t.Fatalf("the item of %q at %d is not in the index: %+v", key, pos, at)
		}
	}
	if p.mode == Cache {
		checkLog(t, &p.log, seen)
	} else {
		checkHeap(t, &p.heap, seen)
	}
	if items != p.stats.Items || size != p.stats.Bytes {
		t.Fatalf("%d items, %d bytes, counted %d and %d", items, size, p.stats.Items, p.stats.Bytes)
	}
	entries, extra := uint64(0), uint64(0)
	for n := range p.index {
		for b := &p.buckets[n]; ; b = &p.buckets[b.link-1] {
			for _, e := range b.entries {
				if _, _, ok := p.position(e); e != 0 && ok {
					entries++
				}
			}
			if b.link == 0 {
				break
			}
			extra++
		}
	}
	free := uint64(0)
	for n := p.spare; n != 0; n = uint32(p.buckets[n-1].link) {
		free++
	}
	if entries != items || extra != p.stats.Extra ||
		extra+free != uint64(len(p.buckets))-uint64(p.index) {
		t.Fatalf("%d items, %d entries; %d extra buckets, %d counted, %d free",
			items, entries, extra, p.stats.Extra, free)
	}
}

// where is find that changes nothing.
func (p *Partition) where(hash KeyHash, key []byte) place {
	now := p.now
	p.now = 0
	defer func() { p.now = now }()
	return p.find(hash, key)
}

func checkLog(t testing.TB, r *ring, seen func(pos, n uint64)) {
	t.Helper()
	pos := r.headPos
	for at := r.head; at != r.tail; {
		w, n := r.words[pos], r.words[pos]>>8
		if w&0xFF != 0 {
			n = r.size(pos)
			if n <= lineUnits && pos/lineUnits != (pos+n-1)/lineUnits {
				t.Fatalf("%d units at %d are in two lines", n, pos)
			}
			if r.words[pos+1]&bitDead == 0 {
				seen(pos, n)
			}
		}
		if n == 0 || at+n > r.tail || pos+n > uint64(len(r.words)) {
			t.Fatalf("%d units at %d of %d, tail %d", n, at, pos, r.tail)
		}
		at += n
		if pos += n; pos == uint64(len(r.words)) {
			pos = 0
		}
	}
	if pos != r.tailPos || r.tail-r.head > uint64(len(r.words)) {
		t.Fatalf("head %d, tail %d at %d, not %d", r.head, r.tail, pos, r.tailPos)
	}
}

func checkHeap(t testing.TB, h *heap, seen func(pos, n uint64)) {
	t.Helper()
	wasFree, blocks := false, 0
	for pos := uint64(0); pos < uint64(len(h.words)); {
		free := h.words[pos+1]&bitDead != 0
		if said := h.words[pos+1]&bitPrevFree != 0; said != wasFree {
			t.Fatalf("the block at %d says that the one before is free: %v", pos, said)
		}
		n := h.words[pos] >> 8
		if free {
			blocks++
			if wasFree || h.words[pos+n*lineUnits-1] != n {
				t.Fatalf("free block at %d of %d lines beside another, or without end", pos, n)
			}
		} else {
			n = h.lines(pos)
			seen(pos, n*lineUnits)
		}
		wasFree = free
		pos += n * lineUnits
	}
	listed := 0
	for level, lists := range h.lists {
		for step, number := range lists {
			if has := h.some[level]>>step&1 == 1; has != (number != 0) {
				t.Fatalf("level %d, step %d: %d, %v", level, step, number, has)
			}
			for prev := uint64(0); number != 0; listed++ {
				pos := (number - 1) * lineUnits
				l, s := class(h.words[pos] >> 8)
				if l != level || s != step || h.words[pos+2] != prev || h.words[pos+1]&bitDead == 0 {
					t.Fatalf("block %d in list %d, %d", number, level, step)
				}
				prev, number = number, h.words[pos+1]>>versionShift
			}
		}
		if has := h.any>>level&1 == 1; has != (h.some[level] != 0) {
			t.Fatalf("level %d: %v", level, has)
		}
	}
	if listed != blocks || bits.Len64(h.any) > levels {
		t.Fatalf("%d free blocks, %d in lists", blocks, listed)
	}
}
