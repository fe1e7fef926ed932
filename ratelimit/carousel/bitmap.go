package carousel

import "math/bits"

// bitmap is a set of slot numbers that finds the next member in three steps. Bit i of
// a level says whether word i of the level below has a bit set.
type bitmap struct {
	bottom []uint64
	middle []uint64
	top    uint64
}

// newBitmap returns an empty set of numbers below n, at most MaxSlots.
func newBitmap(n int64) bitmap {
	words := (n + 63) / 64
	return bitmap{bottom: make([]uint64, words), middle: make([]uint64, (words+63)/64)}
}

func (b *bitmap) has(i uint32) bool { return b.bottom[i>>6]>>(i&63)&1 != 0 }

func (b *bitmap) set(i uint32) {
	b.bottom[i>>6] |= 1 << (i & 63)
	b.middle[i>>12] |= 1 << (i >> 6 & 63)
	b.top |= 1 << (i >> 12 & 63)
}

func (b *bitmap) clear(i uint32) {
	b.bottom[i>>6] &^= 1 << (i & 63)
	if b.bottom[i>>6] != 0 {
		return
	}
	b.middle[i>>12] &^= 1 << (i >> 6 & 63)
	if b.middle[i>>12] == 0 {
		b.top &^= 1 << (i >> 12 & 63)
	}
}

// next returns the least member that is not below i.
func (b *bitmap) next(i uint32) (member uint32, ok bool) {
	if m := b.bottom[i>>6] >> (i & 63); m != 0 {
		return i + uint32(bits.TrailingZeros64(m)), true
	}
	word := i>>6 + 1 // the next word that may have members
	group := word >> 6
	if int(group) < len(b.middle) {
		if m := b.middle[group] >> (word & 63); m != 0 {
			return b.firstOf(word + uint32(bits.TrailingZeros64(m))), true
		}
	}
	// A shift by 64 or more gives 0.
	m := b.top >> (group + 1)
	if m == 0 {
		return 0, false
	}
	group += 1 + uint32(bits.TrailingZeros64(m))
	return b.firstOf(group<<6 + uint32(bits.TrailingZeros64(b.middle[group]))), true
}

// firstOf returns the least member in a word of the bottom that has one.
func (b *bitmap) firstOf(word uint32) uint32 {
	return word<<6 + uint32(bits.TrailingZeros64(b.bottom[word]))
}
