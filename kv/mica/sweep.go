package mica

import "math"

// sweeper looks for items past their time, round after round: in a cache at each bucket, in a store
// at each block of the heap, since what lies side by side there becomes one free block.
type sweeper struct {
	at         uint32 // cache: the next bucket
	step, next uint64 // cache: units from one visit to the next, and the tail at which that is due
	// No item in memory expires before the time soonest + 1, and none that this round has met, or
	// that was written meanwhile, before seen + 1.
	soonest, seen uint32
}

const never = math.MaxUint32 // of soonest and seen: there is no such item

// note notes when an item expires, which is at 0 if it never does.
func (s *sweeper) note(expires uint32) {
	s.soonest = min(s.soonest, expires-1)
	s.seen = min(s.seen, expires-1)
}

// roundEnds begins the next round.
func (s *sweeper) roundEnds() { s.soonest, s.seen = s.seen, never }

// expiredThere reports whether an item may be past its time.
func (p *Partition) expiredThere() bool { return p.soonest < p.now }

// sweep visits the buckets of a cache that are due, so that the whole index is visited while the
// tail of the log goes through half the range of offsets.
func (p *Partition) sweep() {
	for p.log.tail >= p.next {
		p.next += p.step
		p.visitNext()
	}
}

// visitNext visits the next bucket of a cache.
func (p *Partition) visitNext() {
	p.visit(p.at)
	if p.at++; p.at == p.index {
		p.at = 0
		p.roundEnds()
	}
}

// visit looks at a bucket and what hangs on it: entries of overwritten items are cleared, and items
// past their time are removed.
func (p *Partition) visit(n uint32) {
	begun := p.enter(n)
	for b := &p.buckets[n]; ; b = &p.buckets[b.link-1] {
		for i, e := range b.entries {
			if e == 0 {
				continue
			}
			pos, _, ok := p.position(e)
			switch {
			case !ok:
				p.set(b, i, 0)
			case p.expired(pos):
				p.stats.Expired++
				p.set(b, i, 0)
				p.release(pos)
			default:
				p.seen = min(p.seen, p.space().expires(pos)-1)
			}
		}
		if b.link == 0 {
			break
		}
	}
	if p.mode == Store {
		p.prune(n)
	}
	p.leave(n, begun)
}

// visitBlock looks at the next block of a store.
func (p *Partition) visitBlock() {
	h := &p.heap
	pos := h.cursor
	if pos == uint64(len(h.words)) {
		h.cursor = 0
		p.roundEnds()
		return
	}
	w := h.words[pos]
	switch free := h.words[pos+1]&bitDead != 0; {
	case free:
		h.cursor += w >> 8
	case w&0xFF == 0: // a chunk of extra buckets
		h.cursor += h.block(pos)
	default:
		h.cursor += h.block(pos)
		if p.expired(pos) {
			key := h.key(pos)
			p.find(p.hashOf(key), key) // which removes it
		} else {
			p.seen = min(p.seen, h.expires(pos)-1)
		}
	}
}

// hashOf returns the hash of a key of an item.
func (p *Partition) hashOf(key []byte) KeyHash {
	if p.hash != nil {
		return p.hash(key)
	}
	return p.Hash(key)
}

// Sweep looks at n buckets of a cache, or at n blocks of a store, each about an item, after those
// of the last time, and removes items past their time. An owner calls it now and then: otherwise
// such items keep their memory until they are asked for, or until a store is full. It reports
// whether more of them may be there; if none can be it does nothing. 16 take a few microseconds.
func (p *Partition) Sweep(n int) (more bool) {
	p.settle()
	for ; n > 0 && p.expiredThere(); n-- {
		if p.mode == Cache {
			p.visitNext()
		} else {
			p.visitBlock()
		}
	}
	return p.expiredThere()
}
