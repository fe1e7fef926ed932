package mica

// Marks are bits of an item for its owner's protocol. A write sets those of [Write.Marks]; Concat
// and Increment clear all.
type Marks uint8

// The marks.
const (
	Stale   Marks = 1 << iota // the value is out of date, and is good until there is a new one
	Claimed                   // somebody was told to make a new one
	Fetched                   // somebody has looked it up
)

const marksShift = 3 // in word 1 of an item

// GetMarked is Get, and returns the item's marks too. Item has no room for them: Get would be
// slower.
func (p *Partition) GetMarked(hash KeyHash, key []byte) (it Item, m Marks, found bool) {
	p.settle()
	at := p.find(hash, key)
	if at.b == nil {
		p.stats.Misses++
		return Item{}, 0, false
	}
	p.hit(at, &it)
	return it, Marks(p.space().words[at.pos+1] >> marksShift & 7), true
}

// Change changes an item beside its value.
type Change struct {
	Set, Clear Marks
	NewVersion uint64 // the item's version from now on; 0: as Renew says
	Renew      bool   // it gets the next version, not its old one
	Expire     bool   // it expires when Expires says
	Expires    uint32 // on the clock of SetNow; 0: never
}

// Change changes an item, and returns it as it is now.
func (p *Partition) Change(hash KeyHash, key []byte, c Change) (it Item, found bool) {
	p.settle()
	at := p.find(hash, key)
	if at.b == nil {
		return Item{}, false
	}
	n := p.bucketOf(hash)
	begun := p.enter(n)
	s := p.space()
	version := s.version(at.pos)
	if c.NewVersion != 0 || c.Renew {
		version = p.versionFor(c.NewVersion)
	}
	low := s.words[at.pos+1] & (1<<versionShift - 1)
	low = low&^(uint64(c.Clear)<<marksShift) | uint64(c.Set)<<marksShift
	s.set(at.pos+1, low|version<<versionShift)
	if c.Expire {
		s.setExpires(at.pos, c.Expires)
		p.note(c.Expires)
	}
	p.leave(n, begun)
	s.read(at.pos, &it)
	return it, true
}

// versionFor returns the version that was asked for, or the next one.
func (p *Partition) versionFor(asked uint64) uint64 {
	if asked &= versionMask; asked != 0 {
		return asked
	}
	return p.nextVersion()
}
