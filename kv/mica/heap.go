package mica

import "math/bits"

// heap is the memory of a store: blocks, each an item, a chunk of extra buckets, or free, one
// behind the other from the begin to the end. Free blocks are in lists by size (two-level
// segregated fit, Masmano et al., ECRTS 2004). No two neighbours are free.
//
//	word 0        0 (8), size in units (56)
//	word 1        bits (16), next block of the list (48)
//	word 2        previous block of the list
//	last word     size in units
//
// So a block has minBlock units at least. What an item leaves of its block, if that is fewer, stays
// with it: the slack in its word 1. In lists blocks are named by their position and 1 more, where 0
// is none.
type heap struct {
	space
	lists  [levels][steps]uint64
	some   [levels]uint16 // which lists of a level have blocks
	any    uint64         // which levels have some
	cursor uint64         // the block that a sweep looks at next, or the end
}

const (
	minBlock = 4
	steps    = 16 // lists of a level: sizes of 1 to 15 units, and sixteenths of each power of two
	levels   = 46
	tries    = 64 // blocks of a list that are looked at, when no list with larger ones has any
)

// reset makes all memory one free block.
func (h *heap) reset() {
	h.lists, h.some, h.any, h.cursor = [levels][steps]uint64{}, [levels]uint16{}, 0, 0
	h.set(1, 0)
	h.put(0, uint64(len(h.words)))
}

// class returns the list for free blocks of n units.
func class(n uint64) (level, step int) {
	if n < steps {
		return 0, int(n)
	}
	l := bits.Len64(n) - 5 // the number of bits below the four of the step
	return l + 1, int(n >> l & (steps - 1))
}

// block returns the size in units of the block of the item, or chunk, at pos.
func (h *heap) block(pos uint64) uint64 {
	return h.size(pos) + h.words[pos+1]>>slackShift&maxSlack
}

// put makes units a free block, and puts it into its list.
func (h *heap) put(pos, n uint64) {
	level, step := class(n)
	first := h.lists[level][step]
	h.set(pos, n<<8)
	h.set(pos+1, h.words[pos+1]&bitPrevFree|bitDead|first<<versionShift)
	h.set(pos+2, 0)
	end := pos + n
	h.set(end-1, n)
	if end < uint64(len(h.words)) {
		h.set(end+1, h.words[end+1]|bitPrevFree)
	}
	if first != 0 {
		h.set(first+1, pos+1)
	}
	h.lists[level][step] = pos + 1
	h.some[level] |= 1 << step
	h.any |= 1 << level
	if h.cursor > pos && h.cursor < end {
		h.cursor = end
	}
}

// take takes a free block out of its list, and returns its size. The block after it still says that
// it is free.
func (h *heap) take(pos uint64) uint64 {
	n := h.words[pos] >> 8
	next, prev := h.words[pos+1]>>versionShift, h.words[pos+2]
	if next != 0 {
		h.set(next+1, prev)
	}
	if prev != 0 {
		h.set(prev, h.words[prev]&(1<<versionShift-1)|next<<versionShift)
		return n
	}
	level, step := class(n)
	if h.lists[level][step] = next; next == 0 {
		if h.some[level] &^= 1 << step; h.some[level] == 0 {
			h.any &^= 1 << level
		}
	}
	return n
}

// search finds a free block of n units or more: the first one of the list of that size if it is
// large enough, since it leaves the least, or else one of a list with larger ones.
func (h *heap) search(n uint64) (pos uint64, ok bool) {
	level, step := class(n)
	if number := h.lists[level][step]; number != 0 && h.words[number-1]>>8 >= n {
		return number - 1, true
	}
	some := h.some[level] >> step >> 1 << step << 1
	if some == 0 {
		above := h.any >> (level + 1) << (level + 1)
		if above == 0 {
			return h.searchList(n)
		}
		level = bits.TrailingZeros64(above)
		some = h.some[level]
	}
	return h.lists[level][bits.TrailingZeros16(some)] - 1, true
}

// searchList looks for n units in the list where some blocks are large enough and some are not.
func (h *heap) searchList(n uint64) (pos uint64, ok bool) {
	level, step := class(n)
	number := h.lists[level][step]
	for range tries {
		if number == 0 {
			return 0, false
		}
		if h.words[number-1]>>8 >= n {
			return number - 1, true
		}
		number = h.words[number] >> versionShift
	}
	return 0, false
}

// alloc returns a block for an item of n units, to be written at once with these bits in its word
// 1. ok is false if there is none.
func (h *heap) alloc(n uint64) (pos, bits uint64, ok bool) {
	if pos, ok = h.search(max(n, minBlock)); !ok {
		return 0, 0, false
	}
	return pos, h.cut(pos, h.take(pos), n, 0), true
}

// cut makes n units of a free block, which is in no list any more, a block for an item. It returns
// the bits of the item's word 1, of which some are given.
func (h *heap) cut(pos, have, n, bits uint64) uint64 {
	bits = h.trim(pos, have, n, bits)
	if end := pos + have; bits>>slackShift == have-n && end < uint64(len(h.words)) {
		h.set(end+1, h.words[end+1]&^bitPrevFree)
	}
	return bits
}

// trim makes n units of a block a block for an item, and gives back what it can of the rest. It
// returns the bits of the item's word 1, of which some are given.
func (h *heap) trim(pos, have, n, bits uint64) uint64 {
	if used := max(n, minBlock); have-used >= minBlock {
		h.set(pos+used+1, 0)
		h.free(pos+used, have-used)
		have = used
	}
	return bits | (have-n)<<slackShift
}

// free gives n units back, whose word 1 says whether the block before them is free.
func (h *heap) free(pos, n uint64) {
	if next := pos + n; next < uint64(len(h.words)) && h.words[next+1]&bitDead != 0 {
		n += h.take(next)
	}
	if h.words[pos+1]&bitPrevFree != 0 {
		before := h.words[pos-1]
		pos -= before
		n += h.take(pos)
	}
	h.put(pos, n)
}

// grow makes room for n units where an item is, with what is free around it. ok is false if that is
// too little: then nothing has changed. Otherwise the item is gone, and the block is as that of
// alloc.
func (h *heap) grow(at, n uint64) (pos, bits uint64, ok bool) {
	pos, have := at, h.block(at)
	if next := at + have; next < uint64(len(h.words)) && h.words[next+1]&bitDead != 0 {
		have += h.words[next] >> 8
	}
	if h.words[at+1]&bitPrevFree != 0 {
		pos -= h.words[at-1]
		have += at - pos
	}
	if have < n {
		return 0, 0, false
	}
	h.free(at, h.block(at))
	return pos, h.cut(pos, h.take(pos), n, 0), true
}
