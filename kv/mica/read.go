package mica

import "github.com/userspace-rpc/erpc/gopt"

// Get looks up a key by its hash. The value is a view.
func (p *Partition) Get(hash KeyHash, key []byte) (it Item, found bool) {
	if p.moving+p.later.n > 0 {
		p.catchUpFor(hash)
	}
	found = p.get(hash, key, &it)
	return it, found
}

// get looks a key up. Items are handed on by pointer: copies of one would be read in larger pieces
// than it was written in, for which the processor waits.
func (p *Partition) get(hash KeyHash, key []byte, it *Item) bool {
	at := p.find(hash, key)
	if at.b == nil {
		p.stats.Misses++
		*it = Item{}
		return false
	}
	p.hit(at, it)
	return true
}

// hit counts a lookup, returns its item, and remembers an old one to be moved.
func (p *Partition) hit(at place, it *Item) {
	p.stats.Hits++
	if at.age > p.old {
		p.moveLater(at.b, at.i)
	}
	p.space().read(at.pos, it)
}

// Lookup is a lookup of a batch: a hash and a key, and what was found. Item.Value is a view.
type Lookup struct {
	Hash  KeyHash
	Key   []byte
	Item  Item
	Found bool
}

// GetBatch does all lookups, interleaved.
func (p *Partition) GetBatch(list []Lookup) {
	p.settle()
	for len(list) > 0 {
		n := min(len(list), gopt.Batch)
		p.getGroup(list[:n])
		list = list[n:]
	}
}

// candidates are the items that a group of lookups reads first.
type candidates struct {
	words [gopt.Batch]*uint64 // nil: none
	at    [gopt.Batch]place
}

func (p *Partition) getGroup(list []Lookup) {
	var hashes [gopt.Batch]KeyHash
	for i := range list {
		hashes[i] = list[i].Hash
	}
	var c candidates
	p.look(hashes[:len(list)], &c)
	s := p.space()
	for i := range list {
		l, at := &list[i], &c.at[i]
		// An entry of 0: the item has expired, and has been found so in this batch.
		there := at.b != nil && at.b.entries[at.i] != 0
		if there && s.has(at.pos, l.Key) && !p.expired(at.pos) {
			p.hit(*at, &l.Item)
			l.Found = true
			continue
		}
		if at.b == nil && p.buckets[p.bucketOf(l.Hash)].link == 0 {
			p.stats.Misses++
			l.Item, l.Found = Item{}, false
			continue
		}
		l.Found = p.get(l.Hash, l.Key, &l.Item) // the tag is that of another key, or there is a chain
	}
}

// look finds for each hash, gopt.Batch at most, the first entry with its tag in the first bucket,
// and asks for the lines of all items.
func (p *Partition) look(hashes []KeyHash, c *candidates) {
	var numbers [gopt.Batch]uint32
	for i, h := range hashes {
		numbers[i] = p.bucketOf(h)
	}
	gopt.PrefetchAt(p.buckets, numbers[:len(hashes)], 1)
	words := p.space().words
	for i, h := range hashes {
		b, tag := &p.buckets[numbers[i]], tagOf(h)
		for j, e := range b.entries {
			if e>>tagShift != tag {
				continue
			}
			if pos, age, ok := p.position(e); ok {
				c.at[i], c.words[i] = place{b, j, pos, age}, &words[pos]
				break
			}
		}
	}
	gopt.Prefetch(c.words[:len(hashes)], p.lines())
}

// lines returns how many cache lines of an item are worth asking for: those of an average one.
func (p *Partition) lines() int {
	if p.stats.Bytes <= p.stats.Items*64 {
		return 1
	}
	return int(min((p.stats.Bytes/max(p.stats.Items, 1)+63)/64, 4))
}

// Warm brings what operations on these hashes will read into the cache, interleaved. It changes
// nothing.
func (p *Partition) Warm(hashes []KeyHash) {
	for len(hashes) > 0 {
		n := min(len(hashes), gopt.Batch)
		var c candidates
		p.look(hashes[:n], &c)
		hashes = hashes[n:]
	}
}

// maxMoves is how many items a batch can have moved.
const maxMoves = 64

// move is an item that is to be appended anew.
type move struct {
	b     *bucket
	i     int
	entry uint64
}

// moveLater has the next call move an item, since views of it and of others are out.
func (p *Partition) moveLater(b *bucket, i int) {
	if p.moving < maxMoves {
		p.moves[p.moving] = move{b, i, b.entries[i]}
		p.moving++
	}
}

// settle moves the items that were found old, and writes the Puts that wait.
func (p *Partition) settle() {
	if p.moving+p.later.n > 0 {
		p.catchUp()
	}
}

func (p *Partition) catchUp() { p.catchUpFor(p.later.hashes[0]) }

// catchUpFor is settle before a lookup, whose lines it asks for.
//
//go:noinline
func (p *Partition) catchUpFor(hash KeyHash) {
	p.moveAll()
	if p.later.n > 0 {
		p.writeLater(hash)
	}
}

func (p *Partition) moveAll() {
	list := p.moves[:p.moving]
	p.moving = 0
	for _, m := range list {
		if m.b.entries[m.i] != m.entry {
			continue // it was asked for twice
		}
		pos, age, ok := p.position(m.entry)
		if !ok {
			continue
		}
		n := p.log.size(pos)
		if age+p.log.need(n) > uint64(len(p.log.words)) {
			continue // it would be overwritten by itself
		}
		to := p.log.reserve(n)
		p.log.move(to, pos, n)
		p.log.set(pos+1, p.log.words[pos+1]|bitDead)
		p.set(m.b, m.i, m.entry&^offsetMask|(p.log.tail-n)&p.mask)
		p.stats.Moves++
		p.sweep()
	}
}
