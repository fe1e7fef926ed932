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
	if entries != items || extra != p.stats.Extra {
		t.Fatalf("%d items, %d entries; %d extra buckets, %d counted",
			items, entries, extra, p.stats.Extra)
	}
	if p.mode == Store {
		checkChunks(t, p, extra)
	}
}

// checkChunks looks at the chunks of extra buckets, of which so many are in use.
func checkChunks(t testing.TB, p *Partition, inUse uint64) {
	t.Helper()
	size, inside, listed := uint64(0), map[uint32]bool{}, 0
	for pos, h := uint64(0), &p.heap; pos < uint64(len(h.words)); {
		w, free := h.words[pos], h.words[pos+1]&bitDead != 0
		if free {
			pos += w >> 8
			continue
		}
		if w&0xFF == 0 {
			used := h.words[pos+1] >> usedShift & 0xFFFF
			size += h.block(pos) * unit
			inUse -= uint64(bits.OnesCount64(used))
			if used != 1<<p.chunkSize(pos)-1 {
				inside[uint32((pos+chunkHead)/lineUnits)+p.index+1] = true
			}
		}
		pos += h.block(pos)
	}
	prev := uint32(0)
	for n := p.chunks; n != 0; listed++ {
		head := p.headOf(n)
		if got := uint32(p.heap.words[head] >> chunkShift); !inside[n] || got != prev {
			t.Fatalf("chunk %d is listed behind %d, want %d", n, got, prev)
		}
		prev, n = n, uint32(p.heap.words[head+1]>>chunkShift)
	}
	index := uint64(p.index)*bucketSize + size
	if inUse != 0 || listed != len(inside) || p.stats.Index != index ||
		p.stats.Capacity != uint64(len(p.heap.bytes))-size {
		t.Fatalf("%d buckets too many, %d chunks listed of %d, %d bytes of chunks: %+v", inUse, listed,
			len(inside), size, p.stats)
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
	wasFree, blocks, cursor := false, 0, h.cursor == uint64(len(h.words))
	for pos := uint64(0); pos < uint64(len(h.words)); {
		free := h.words[pos+1]&bitDead != 0
		if said := h.words[pos+1]&bitPrevFree != 0; said != wasFree {
			t.Fatalf("the block at %d says that the one before is free: %v", pos, said)
		}
		n := h.words[pos] >> 8
		if free {
			blocks++
			if wasFree || h.words[pos+n-1] != n {
				t.Fatalf("free block at %d of %d units beside another, or without end", pos, n)
			}
		} else if n = h.block(pos); h.words[pos]&0xFF != 0 {
			seen(pos, n)
		}
		if n < minBlock {
			t.Fatalf("a block of %d units at %d", n, pos)
		}
		cursor = cursor || pos == h.cursor
		wasFree = free
		pos += n
	}
	if !cursor {
		t.Fatalf("a sweep goes on at %d, within a block", h.cursor)
	}
	listed := 0
	for level, lists := range h.lists {
		for step, number := range lists {
			if has := h.some[level]>>step&1 == 1; has != (number != 0) {
				t.Fatalf("level %d, step %d: %d, %v", level, step, number, has)
			}
			for prev := uint64(0); number != 0; listed++ {
				pos := number - 1
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
