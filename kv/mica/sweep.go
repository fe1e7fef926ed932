package mica

// sweeper visits all buckets, again and again.
type sweeper struct {
	at         uint32 // the next bucket
	step, next uint64 // log: units from one visit to the next, and the tail at which that is due
}

// sweep visits the buckets that are due, so that the whole index is visited while the tail of the
// log goes through half the range of offsets.
func (p *Partition) sweep() {
	for p.log.tail >= p.next {
		p.next += p.step
		p.visit()
	}
}

// visit looks at one bucket and what hangs on it: entries of overwritten items are cleared, and
// items past their time are removed.
func (p *Partition) visit() {
	n := p.at
	if p.at++; p.at == p.index {
		p.at = 0
	}
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

// Sweep visits n buckets, after those of the last time, and removes items past their time. An owner
// calls it now and then: otherwise such items keep their memory until they are asked for.
func (p *Partition) Sweep(n int) {
	p.settle()
	for range min(n, int(p.index)) {
		p.visit()
	}
}

// Buckets returns how many buckets a whole round of Sweep has.
func (p *Partition) Buckets() int { return int(p.index) }
