package mica

import "math/bits"

// heap is the memory of a store: blocks of whole cache lines, each an item or free, one behind the
// other from the begin to the end. Free blocks are in lists by size (two-level segregated fit,
// Masmano et al., ECRTS 2004). No two neighbours are free.
//
//	word 0        0 (8), size in lines (56)
//	word 1        bits (16), next block of the list (48)
//	word 2        previous block of the list
//	last word     size in lines
//
// Blocks are named by their line, and 1 more in lists, where 0 is none.
type heap struct {
	space
	lists [levels][steps]uint64
	some  [levels]uint16 // which lists of a level have blocks
	any   uint64         // which levels have some
}

const (
	steps  = 16 // lists of a level: sizes of 1 to 15 lines, and sixteenths of each power of two
	levels = 46
	tries  = 64 // blocks of a list that are looked at, when no list with larger ones has any
)

// reset makes all memory one free block.
func (h *heap) reset() {
	h.lists, h.some, h.any = [levels][steps]uint64{}, [levels]uint16{}, 0
	h.set(1, 0)
	h.put(0, uint64(len(h.words))/lineUnits)
}

// class returns the list for free blocks of n lines.
func class(n uint64) (level, step int) {
	if n < steps {
		return 0, int(n)
	}
	l := bits.Len64(n) - 5 // the number of bits below the four of the step
	return l + 1, int(n >> l & (steps - 1))
}

// lines returns the size in lines of the item at pos.
func (h *heap) lines(pos uint64) uint64 { return (h.size(pos) + lineUnits - 1) / lineUnits }

// put makes lines a free block, and puts it into its list.
func (h *heap) put(pos, n uint64) {
	level, step := class(n)
	first := h.lists[level][step]
	number := pos/lineUnits + 1
	h.set(pos, n<<8)
	h.set(pos+1, h.words[pos+1]&bitPrevFree|bitDead|first<<versionShift)
	h.set(pos+2, 0)
	end := pos + n*lineUnits
	h.set(end-1, n)
	if end < uint64(len(h.words)) {
		h.set(end+1, h.words[end+1]|bitPrevFree)
	}
	if first != 0 {
		h.set((first-1)*lineUnits+2, number)
	}
	h.lists[level][step] = number
	h.some[level] |= 1 << step
	h.any |= 1 << level
}

// take takes a free block out of its list, and returns its size. The block after it still says that
// it is free.
func (h *heap) take(pos uint64) uint64 {
	n := h.words[pos] >> 8
	next, prev := h.words[pos+1]>>versionShift, h.words[pos+2]
	if next != 0 {
		h.set((next-1)*lineUnits+2, prev)
	}
	if prev != 0 {
		at := (prev-1)*lineUnits + 1
		h.set(at, h.words[at]&(1<<versionShift-1)|next<<versionShift)
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

// search finds a free block of n lines or more.
func (h *heap) search(n uint64) (pos uint64, ok bool) {
	up := n
	if n >= steps {
		up += 1<<(bits.Len64(n)-5) - 1 // each block of that list is large enough
	}
	level, step := class(up)
	some := h.some[level] >> step << step
	if some == 0 {
		above := h.any >> (level + 1) << (level + 1)
		if above == 0 {
			return h.searchList(n)
		}
		level = bits.TrailingZeros64(above)
		some = h.some[level]
	}
	return (h.lists[level][bits.TrailingZeros16(some)] - 1) * lineUnits, true
}

// searchList looks for n lines in the list where some blocks are large enough and some are not.
func (h *heap) searchList(n uint64) (pos uint64, ok bool) {
	level, step := class(n)
	number := h.lists[level][step]
	for range tries {
		if number == 0 {
			return 0, false
		}
		pos = (number - 1) * lineUnits
		if h.words[pos]>>8 >= n {
			return pos, true
		}
		number = h.words[pos+1] >> versionShift
	}
	return 0, false
}

// alloc returns a block of n lines, to be written at once; in its word 1 bitPrevFree is valid. ok
// is false if there is none.
func (h *heap) alloc(n uint64) (pos uint64, ok bool) {
	if pos, ok = h.search(n); !ok {
		return 0, false
	}
	size := h.take(pos)
	end := pos + n*lineUnits
	if size > n {
		h.set(end+1, 0)
		h.put(end, size-n)
	} else if end < uint64(len(h.words)) {
		h.set(end+1, h.words[end+1]&^bitPrevFree)
	}
	h.set(pos+1, h.words[pos+1]&bitPrevFree)
	return pos, true
}

// free gives the n lines of an item back.
func (h *heap) free(pos, n uint64) {
	if next := pos + n*lineUnits; next < uint64(len(h.words)) && h.words[next+1]&bitDead != 0 {
		n += h.take(next)
	}
	if h.words[pos+1]&bitPrevFree != 0 {
		before := h.words[pos-1]
		pos -= before * lineUnits
		n += h.take(pos)
	}
	h.put(pos, n)
}
