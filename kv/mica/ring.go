package mica

// ring is the circular log of a cache: items and gaps, one behind the other. A gap is a word whose
// lowest byte, a key's length elsewhere, is 0; the rest of it is the size of the gap in units.
type ring struct {
	space
	// Offsets that grow for ever: of the oldest item, and behind the newest one.
	head, tail uint64
	// The same as positions in memory.
	headPos, tailPos uint64

	stats *Stats  // of the partition: items go when they are overwritten
	out   *shared // what readers see; nil: there are none
}

func (r *ring) clear() {
	r.head, r.headPos = r.tail, r.tailPos
	r.showHead()
}

// showHead lets readers see the head, before what was there is overwritten.
func (r *ring) showHead() {
	if r.out != nil {
		r.out.head.Store(r.head)
	}
}

// position returns where the item with an offset is, and its distance from the tail; ok is false if
// it has been overwritten.
func (r *ring) position(offset, mask uint64) (pos, age uint64, ok bool) {
	age = (r.tail - offset) & mask
	if age-1 >= r.tail-r.head { // an age of 0 too
		return 0, age, false
	}
	pos = r.tailPos - age
	if pos > r.tailPos {
		pos += uint64(len(r.words))
	}
	return pos, age, true
}

// need returns how many units an item of n takes at the tail, gaps before it included.
func (r *ring) need(n uint64) uint64 {
	size, pos := uint64(len(r.words)), r.tailPos
	gap := uint64(0)
	if in := pos % lineUnits; n <= lineUnits && in+n > lineUnits {
		gap = lineUnits - in
	}
	if pos+gap+n > size {
		gap = size - pos
	}
	return gap + n
}

// reserve returns the position of n units at the tail, at most the size of the log. Items that are
// in the way are overwritten.
func (r *ring) reserve(n uint64) uint64 {
	if gap := r.need(n) - n; gap > 0 {
		r.makeRoom(gap)
		r.set(r.tailPos, gap<<8)
		r.advance(gap)
	}
	r.makeRoom(n)
	pos := r.tailPos
	r.advance(n)
	return pos
}

func (r *ring) advance(n uint64) {
	r.tail += n
	r.tailPos += n
	if r.tailPos >= uint64(len(r.words)) {
		r.tailPos -= uint64(len(r.words))
	}
	if r.out != nil {
		r.out.tail.Store(r.tail)
		r.out.lap.Store(r.tail - r.tailPos)
	}
}

// makeRoom moves the head until n units are free.
func (r *ring) makeRoom(n uint64) {
	if uint64(len(r.words))-(r.tail-r.head) >= n {
		return
	}
	for uint64(len(r.words))-(r.tail-r.head) < n {
		w := r.words[r.headPos]
		size := w >> 8
		if w&0xFF != 0 {
			size = r.size(r.headPos)
			if r.words[r.headPos+1]&bitDead == 0 {
				r.stats.Evictions++
				r.stats.Items--
				r.stats.Bytes -= size * unit
			}
		}
		r.head += size
		r.headPos += size
		if r.headPos >= uint64(len(r.words)) {
			r.headPos -= uint64(len(r.words))
		}
	}
	r.showHead()
}
