package mica

import (
	"math/bits"
	"sync/atomic"
)

// ways is how many entries a bucket has.
const ways = 7

// bucket is one cache line.
type bucket struct {
	entries [ways]uint64
	link    uint32 // number of an extra bucket and 1, or 0
	version uint32 // with readers: odd while its chain or an item of it changes; see maxChunk
}

// match returns which entries have a tag, a bit for each. It has no branches: the processor cannot
// know which entry it will be, and a wrong guess would keep it from what comes after this lookup
// while it waits for the line.
func (b *bucket) match(tag uint64) uint {
	e := &b.entries
	return same(e[0], tag) | same(e[1], tag)<<1 | same(e[2], tag)<<2 | same(e[3], tag)<<3 |
		same(e[4], tag)<<4 | same(e[5], tag)<<5 | same(e[6], tag)<<6
}

// same returns 1 if an entry has a tag, else 0.
func same(entry, tag uint64) uint { return uint((entry>>tagShift ^ tag - 1) >> 63) }

// set makes i an entry of b.
func (p *Partition) set(b *bucket, i int, entry uint64) {
	if p.shared == nil {
		b.entries[i] = entry
		return
	}
	atomic.StoreUint64(&b.entries[i], entry)
}

// setLink makes n the link of b.
func (p *Partition) setLink(b *bucket, n uint32) {
	if p.shared == nil {
		b.link = n
		return
	}
	atomic.StoreUint32(&b.link, n)
}

// setVersion makes n the version of b.
func (p *Partition) setVersion(b *bucket, n uint32) {
	if p.shared == nil {
		b.version = n
		return
	}
	atomic.StoreUint32(&b.version, n)
}

const (
	tagShift   = 48
	offsetMask = 1<<tagShift - 1
)

// place is where the index has an item.
type place struct {
	b   *bucket // nil: nowhere
	i   int
	pos uint64 // of the item
	age uint64 // in a log: its distance from the tail
}

// space returns the memory of items.
func (p *Partition) space() *space {
	if p.mode == Cache {
		return &p.log.space
	}
	return &p.heap.space
}

// position returns where the item of an entry is; ok is false if it has been overwritten.
func (p *Partition) position(entry uint64) (pos, age uint64, ok bool) {
	if p.mode == Cache {
		return p.log.position(entry&offsetMask, p.mask)
	}
	return entry & offsetMask, 0, true
}

// find looks a key up. An item past its time is removed.
func (p *Partition) find(hash KeyHash, key []byte) place {
	tag, s := tagOf(hash), p.space()
	for b := &p.buckets[p.bucketOf(hash)]; ; b = &p.buckets[b.link-1] {
		for m := b.match(tag); m != 0; m &= m - 1 {
			i := bits.TrailingZeros(m)
			pos, age, ok := p.position(b.entries[i%8])
			if !ok || !s.has(pos, key) {
				continue
			}
			at := place{b, i, pos, age}
			if t := s.expires(pos); t != 0 && t <= p.now {
				p.stats.Expired++
				p.remove(hash, at)
				return place{}
			}
			return at
		}
		if b.link == 0 {
			return place{}
		}
	}
}

func (p *Partition) expired(pos uint64) bool {
	t := p.space().expires(pos)
	return t != 0 && t <= p.now
}

// remove takes an item out of the index, and gives its memory up.
func (p *Partition) remove(hash KeyHash, at place) {
	n := p.bucketOf(hash)
	begun := p.enter(n)
	p.set(at.b, at.i, 0)
	p.release(at.pos)
	if p.mode == Store {
		p.prune(n)
	}
	p.leave(n, begun)
}

// release gives the memory of an item up.
func (p *Partition) release(pos uint64) {
	p.stats.Items--
	if p.mode == Cache {
		p.log.set(pos+1, p.log.words[pos+1]|bitDead)
		p.stats.Bytes -= p.log.size(pos) * unit
		return
	}
	n := p.heap.block(pos)
	p.stats.Bytes -= n * unit
	p.heap.free(pos, n)
}

// room finds a place for a new entry of a cache. There is always one: the item that is nearest to
// being overwritten loses its place if need be.
func (p *Partition) room(hash KeyHash) (b *bucket, i int) {
	b = &p.buckets[p.bucketOf(hash)]
	var oldest, at uint64
	for j, e := range b.entries {
		if e == 0 {
			return b, j
		}
		pos, age, ok := p.position(e)
		if !ok {
			return b, j
		}
		if age > oldest {
			oldest, i, at = age, j, pos
		}
	}
	p.stats.IndexEvictions++
	p.release(at)
	p.set(b, i, 0)
	return b, i
}

// roomInChain finds a place for a new entry of a store. Errors: ErrFullIndex, ErrFullItems.
func (p *Partition) roomInChain(hash KeyHash) (*bucket, int, error) {
	b := &p.buckets[p.bucketOf(hash)]
	for n := 0; ; n++ {
		for i, e := range b.entries {
			if e == 0 {
				return b, i, nil
			}
		}
		if b.link == 0 {
			if n == p.chain {
				return nil, 0, ErrFullIndex
			}
			number := p.takeExtra()
			if number == 0 {
				return nil, 0, ErrFullItems
			}
			p.setLink(b, number)
			return &p.buckets[number-1], 0, nil
		}
		b = &p.buckets[b.link-1]
	}
}

// prune takes empty extra buckets out of the chain of bucket n.
func (p *Partition) prune(n uint32) {
	for b := &p.buckets[n]; b.link != 0; {
		next := &p.buckets[b.link-1]
		if next.entries != [ways]uint64{} {
			b = next
			continue
		}
		number := b.link
		p.setLink(b, next.link)
		p.giveExtra(number)
	}
}

// entry returns the entry of an item that has been written to pos just now, in a log as the last
// one.
func (p *Partition) entry(hash KeyHash, pos, size uint64) uint64 {
	offset := pos
	if p.mode == Cache {
		offset = (p.log.tail - size) & p.mask
	}
	return tagOf(hash)<<tagShift | offset
}
