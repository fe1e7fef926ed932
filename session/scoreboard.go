package session

// maxAhead is how far ahead of the first packet that is missing packets of a message are kept.
const maxAhead = 256

// scoreboard knows which packets of a message have come though earlier ones are missing: of the
// maxAhead from the first missing one on. Their data is where it belongs. (RFC 6675 calls so what a
// sender knows of this.)
type scoreboard struct {
	bits [maxAhead / 64]uint64 // by packet number mod maxAhead
	n    int
}

// add notes that packet k has come, and reports false if that is known.
func (b *scoreboard) add(k uint32) bool {
	word, bit := &b.bits[k%maxAhead/64], uint64(1)<<(k%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	b.n++
	return true
}

// pass returns the first packet from k on that has not come, and forgets those before it.
func (b *scoreboard) pass(k uint32) uint32 {
	for b.n > 0 && b.has(k) {
		b.bits[k%maxAhead/64] &^= 1 << (k % 64)
		b.n--
		k++
	}
	return k
}

func (b *scoreboard) has(k uint32) bool { return b.bits[k%maxAhead/64]&(1<<(k%64)) != 0 }

// hole returns how many packets are missing from k on, before the first one that has come; 0 if
// none has.
func (b *scoreboard) hole(k uint32) (n uint32) {
	if b.n == 0 {
		return 0
	}
	for !b.has(k + n) {
		n++
	}
	return n
}
