package mica

import (
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/userspace-rpc/erpc/gopt"
)

//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .

// shared has the fields of a partition that readers see, beside its memory. Its offsets grow for
// ever.
type shared struct {
	_          [64]byte      // what the owner writes beside it
	head, tail atomic.Uint64 // of the log
	lap        atomic.Uint64 // offset of what is first in memory, or was before the tail came by
	now        atomic.Uint32
	_          [64]byte
}

// enter begins a change of the chain of bucket n or of its items, so that readers come again. It
// returns whether leave has to end it.
func (p *Partition) enter(n uint32) bool {
	if p.shared == nil {
		return false
	}
	b := &p.buckets[n]
	if b.version&1 != 0 {
		return false // it is a part of another change
	}
	atomic.StoreUint32(&b.version, b.version+1)
	return true
}

func (p *Partition) leave(n uint32, begun bool) {
	if begun {
		b := &p.buckets[n]
		atomic.StoreUint32(&b.version, b.version+1)
	}
}

// empty clears the index.
func (p *Partition) empty() {
	if p.shared == nil {
		clear(p.buckets[:p.index])
		return
	}
	for n := range p.index {
		b := &p.buckets[n]
		p.enter(uint32(n))
		for i := range b.entries {
			p.set(b, i, 0)
		}
		p.setLink(b, 0)
		p.leave(uint32(n), true)
	}
}

// Reader looks keys up beside the owner of a partition. One goroutine uses it.
type Reader struct {
	// Of the partition; the owner writes none of these.
	buckets []bucket
	index   uint32
	chain   int
	items   []uint64
	log     bool // it is a cache
	mask    uint64
	shared  *shared

	words []uint64 // what was found
	stats ReaderStats
	pause func() // in tests: called between the key of an item and its value
}

// ReaderStats counts what a reader did.
type ReaderStats struct {
	Hits, Misses uint64
	Retries      uint64 // lookups begun anew, as the owner changed what was read
}

// NewReader returns a reader for one goroutine, and may be called by any. Readers must have ended
// before Close. Errors: ErrConfig if Config.Readers was not set.
func (p *Partition) NewReader() (*Reader, error) {
	if p.shared == nil {
		return nil, errNoReaders
	}
	return &Reader{buckets: p.buckets, index: p.index, chain: p.chain, items: p.space().words,
		log: p.mode == Cache, mask: p.mask, shared: p.shared}, nil
}

// Stats returns the counters. Those of the partition do not have them.
func (r *Reader) Stats() ReaderStats { return r.stats }

// Get looks up a key by its hash. The value is a copy in memory of the reader, valid until its next
// lookup. An item past its time is not found, and left for the owner to remove. No lookup of a
// reader moves an item to the head.
//
// A lookup that meets a change of the same bucket begins anew. So it waits for an owner that was
// interrupted in a change.
func (r *Reader) Get(hash KeyHash, key []byte) (it Item, found bool) {
	r.restart()
	found = r.get(hash, key, &it)
	return it, found
}

// GetBatch does all lookups, interleaved. Values are as those of Get.
func (r *Reader) GetBatch(list []Lookup) {
	r.restart()
	for len(list) > 0 {
		n := min(len(list), gopt.Batch)
		var hashes [gopt.Batch]KeyHash
		for i := range list[:n] {
			hashes[i] = list[i].Hash
		}
		r.warm(hashes[:n])
		for i := range list[:n] {
			l := &list[i]
			l.Found = r.get(l.Hash, l.Key, &l.Item)
		}
		list = list[n:]
	}
}

// keepWords is how much memory for values a reader keeps from one lookup to the next, in words.
const keepWords = 8 << 10

func (r *Reader) restart() {
	if r.words = r.words[:0]; cap(r.words) > keepWords {
		r.words = nil
	}
}

// Warm brings what lookups of these hashes will read into the cache, interleaved. With it, single
// lookups are as fast as those of a batch, whose values are all in memory at the same time.
func (r *Reader) Warm(hashes []KeyHash) { r.warm(hashes) }

// ahead asks for the lines of a lookup: its bucket, then its item. warm does so for many.
//
//gopt:batch B=32 name=warm
func (r *Reader) ahead(hash KeyHash) {
	b := &r.buckets[bucketOf(hash, r.index)]
	gopt.Expensive(b)
	tag := tagOf(hash)
	var item *uint64
	for j := range b.entries {
		e := atomic.LoadUint64(&b.entries[j])
		if e>>tagShift != tag {
			continue
		}
		if pos, _, ok := r.position(e); ok {
			item = &r.items[pos]
			break
		}
	}
	gopt.Expensive(item)
}

func (r *Reader) get(hash KeyHash, key []byte, it *Item) bool {
	b := &r.buckets[bucketOf(hash, r.index)]
	from := len(r.words)
	for tries := 1; ; tries++ {
		if version := atomic.LoadUint32(&b.version); version&1 == 0 {
			found := r.try(b, tagOf(hash), key, it)
			if atomic.LoadUint32(&b.version) == version {
				if found {
					r.stats.Hits++
				} else {
					*it = Item{}
					r.stats.Misses++
				}
				return found
			}
			r.words = r.words[:from]
		}
		r.stats.Retries++
		if tries%32 == 0 {
			runtime.Gosched() // the owner may wait for this core
		}
	}
}

// try looks a key up in a chain. The answer is good if nothing has changed meanwhile. If something
// has, the bytes that are read may be anything: memory of other items, or of free blocks.
func (r *Reader) try(b *bucket, tag uint64, key []byte, it *Item) bool {
	for range r.chain + 1 {
		m := uint(0)
		var entries [ways]uint64
		for i := range b.entries {
			entries[i] = atomic.LoadUint64(&b.entries[i])
			m |= same(entries[i], tag) << i
		}
		for ; m != 0; m &= m - 1 {
			pos, offset, ok := r.position(entries[bits.TrailingZeros(m)])
			if !ok {
				continue
			}
			from := len(r.words)
			if r.copy(pos, key, it) && (!r.log || offset >= r.shared.head.Load()) {
				return it.Expires == 0 || it.Expires > r.shared.now.Load()
			}
			r.words = r.words[:from]
		}
		link := atomic.LoadUint32(&b.link)
		if link == 0 || int(link) > len(r.buckets) {
			break
		}
		b = &r.buckets[link-1]
	}
	return false
}

// position returns where the item of an entry is, and its offset in the log; ok is false if it has
// been overwritten.
func (r *Reader) position(entry uint64) (pos, offset uint64, ok bool) {
	units := uint64(len(r.items))
	pos = entry & offsetMask
	if r.log {
		tail := r.shared.tail.Load() // after the entry: so it is behind the item
		age := (tail - entry) & r.mask
		offset = tail - age
		if offset < r.shared.head.Load() || age > tail {
			return 0, 0, false
		}
		// The lap may have begun after the item was written, or end before the tail.
		pos = offset - r.shared.lap.Load()
		if pos > 1<<63 {
			pos += units
		} else if pos >= units {
			pos -= units
		}
	}
	return pos, offset, pos < units-2 // an item has three at least
}

// copy copies the item at pos if it has that key.
func (r *Reader) copy(pos uint64, key []byte, it *Item) bool {
	words := r.items[pos:]
	head, second := atomic.LoadUint64(&words[0]), atomic.LoadUint64(&words[1])
	keySize, size := head&0xFF, head>>8&0xFFFFFF
	it.Version, it.Flags, it.Expires = second>>versionShift, 0, uint32(head>>32)
	words = words[2:]
	if second&bitFlags != 0 {
		it.Flags = uint32(atomic.LoadUint64(&words[0]))
		words = words[1:]
	}
	n := (keySize + size + unit - 1) / unit
	if keySize != uint64(len(key)) || size > MaxValue || n > uint64(len(words)) {
		return false
	}
	from := len(r.words)
	r.words = slices.Grow(r.words, int(n))[:from+int(n)]
	to := r.words[from:]
	if len(to) == 0 {
		return false // no key is empty
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&to[0])), len(to)*unit)
	inKey := min((int(keySize)+unit-1)/unit, len(to))
	for i := range to[:inKey] {
		to[i] = atomic.LoadUint64(&words[i])
	}
	if string(bytes[:keySize]) != string(key) {
		return false
	}
	if r.pause != nil {
		r.pause()
	}
	for i := inKey; i < len(to); i++ {
		to[i] = atomic.LoadUint64(&words[i])
	}
	it.Value = bytes[keySize : keySize+size : keySize+size]
	return true
}
