package mica

import "math/bits"

// The extra buckets of a store lie in chunks in the heap, whose first bucket begins a cache line. A
// chunk is a block that looks like an item without a key. It goes back when none of its buckets is
// in use.
//
//	word 0    0 (8), bytes of the buckets (24), previous chunk (32)
//	word 1    bits (16), which buckets are in use (16), next chunk (32)
//	          buckets
//
// Chunks with a bucket that is free are in a list. They are named by the number of their first
// bucket, and 1 more. A bucket has its number within its chunk where those of the index have their
// version.
const (
	maxChunk   = 15 // buckets: with its head a chunk takes 16 lines, or a part of one more
	chunkHead  = 2  // units
	usedShift  = 16
	chunkShift = 32
)

// headOf returns where the chunk of a list's number begins in the heap.
func (p *Partition) headOf(number uint32) uint64 {
	return uint64(number-1-p.index)*lineUnits - chunkHead
}

// setPart writes bits of a word of the heap, from one on.
func (h *heap) setPart(at uint64, shift, width int, value uint64) {
	mask := uint64(1)<<width - 1
	h.set(at, h.words[at]&^(mask<<shift)|value<<shift)
}

func (p *Partition) chunkSize(head uint64) int {
	return int(p.heap.words[head] >> 8 & 0xFFFFFF / bucketSize)
}

// takeExtra returns the number of an empty bucket and 1, or 0 if there is no memory.
func (p *Partition) takeExtra() uint32 {
	if p.chunks == 0 && !p.addChunk(maxChunk) && !p.addChunk(1) {
		return 0
	}
	h, number := &p.heap, p.chunks
	head := p.headOf(number)
	used := h.words[head+1] >> usedShift & 0xFFFF
	i := bits.TrailingZeros64(^used)
	h.setPart(head+1, usedShift, 16, used|1<<i)
	if used|1<<i == 1<<p.chunkSize(head)-1 {
		p.unlinkChunk(head)
	}
	b := &p.buckets[int(number)-1+i]
	for j := range b.entries {
		p.set(b, j, 0)
	}
	p.setLink(b, 0)
	p.setVersion(b, uint32(i))
	p.stats.Extra++
	return number + uint32(i)
}

// giveExtra takes back an empty bucket, of which nothing is linked.
func (p *Partition) giveExtra(bucket uint32) {
	h, i := &p.heap, p.buckets[bucket-1].version
	number := bucket - i
	head := p.headOf(number)
	used := h.words[head+1] >> usedShift & 0xFFFF
	if used == 1<<p.chunkSize(head)-1 {
		p.linkChunk(number)
	}
	used &^= 1 << i
	h.setPart(head+1, usedShift, 16, used)
	if p.stats.Extra--; used == 0 {
		p.unlinkChunk(head)
		n := h.block(head)
		p.count(-int64(n))
		h.free(head, n)
	}
}

// addChunk makes a chunk of so many buckets.
func (p *Partition) addChunk(n uint64) bool {
	head, ok := p.heap.allocLines(n)
	if !ok {
		return false
	}
	p.count(int64(p.heap.block(head)))
	p.linkChunk(uint32((head+chunkHead)/lineUnits) + p.index + 1)
	return true
}

// count counts units that the index takes of the memory of items.
func (p *Partition) count(units int64) {
	p.stats.Index += uint64(units * unit)
	p.stats.Capacity -= uint64(units * unit)
}

// linkChunk puts a chunk before all others of the list.
func (p *Partition) linkChunk(number uint32) {
	h, head, next := &p.heap, p.headOf(number), p.chunks
	h.setPart(head, chunkShift, 32, 0)
	h.setPart(head+1, chunkShift, 32, uint64(next))
	if next != 0 {
		h.setPart(p.headOf(next), chunkShift, 32, uint64(number))
	}
	p.chunks = number
}

// unlinkChunk takes a chunk out of the list.
func (p *Partition) unlinkChunk(head uint64) {
	h := &p.heap
	prev, next := uint32(h.words[head]>>chunkShift), uint32(h.words[head+1]>>chunkShift)
	if next != 0 {
		h.setPart(p.headOf(next), chunkShift, 32, uint64(prev))
	}
	if prev != 0 {
		h.setPart(p.headOf(prev)+1, chunkShift, 32, uint64(next))
		return
	}
	p.chunks = next
}

// allocLines returns a block with a head and so many whole lines, none of them in use.
func (h *heap) allocLines(lines uint64) (head uint64, ok bool) {
	n := chunkHead + lines*lineUnits
	from, ok := h.search(n + minBlock + lineUnits - 1)
	if !ok {
		return 0, false
	}
	have := h.take(from)
	head = from + (lineUnits-chunkHead-from)%lineUnits
	if head > from && head-from < minBlock {
		head += lineUnits
	}
	h.set(head+1, 0)
	if head > from {
		h.put(from, head-from)
	}
	free := h.words[head+1] // its bitPrevFree
	bits := h.cut(head, have-(head-from), n, free)
	h.set(head, lines*bucketSize<<8)
	h.set(head+1, bits)
	return head, true
}
