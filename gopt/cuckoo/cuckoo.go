package cuckoo

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/userspace-rpc/erpc/gopt"
)

// Errors of Put.
var (
	ErrFull = errors.New("cuckoo: table full") // after maxKicks keys were moved; nothing was lost
	ErrKey  = errors.New("cuckoo: key 0 is not allowed")
)

//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .

const (
	ways     = 8
	maxKicks = 500
)

// bucket is 128 bytes: a key of 0 is an empty place.
type bucket struct {
	keys   [ways]uint64
	values [ways]uint64
}

// Table maps numbers other than 0 to numbers.
type Table struct {
	buckets []bucket
	mask    uint64
	n       int
	seed    uint64 // of the choice of who moves
}

// New returns a Table that is likely to hold n keys: it is at most 90 % full then.
func New(n int) *Table {
	size := 1 << bits.Len(uint(max(n*10/9/ways, 1)))
	return &Table{buckets: make([]bucket, size), mask: uint64(size - 1), seed: 1}
}

// hash mixes the bits of a key (the finalizer of splitmix64).
func hash(k uint64) uint64 {
	k = (k ^ k>>30) * 0xBF58476D1CE4E5B9
	k = (k ^ k>>27) * 0x94D049BB133111EB
	return k ^ k>>31
}

// first and second are the numbers of a key's buckets. They differ, unless there is one bucket.
func (t *Table) first(h uint64) uint32 { return uint32(h & t.mask) }

func (t *Table) second(h uint64) uint32 { return uint32((h ^ (h>>40 | 1)) & t.mask) }

// find returns the place of a key, or ways.
func (b *bucket) find(k uint64) uint {
	for i := range uint(ways) {
		if b.keys[i] == k {
			return i
		}
	}
	return ways
}

// Len returns the number of keys.
func (t *Table) Len() int { return t.n }

// Get returns the value of k.
//
//gopt:batch B=32 name=getBatch with=find:findAll
func (t *Table) Get(k uint64) (value uint64, ok bool) {
	h := hash(k)
	b := &t.buckets[t.first(h)]
	gopt.Expensive(b)
	i := b.find(k)
	if i == ways {
		// The other bucket.
		b = &t.buckets[t.second(h)]
		gopt.Expensive(b)
		i = b.find(k)
	}
	if i == ways || k == 0 {
		return 0, false
	}
	return b.values[i], true
}

// GetBatch looks all keys up, interleaved: values[i] and ok[i] are those of keys[i]. Both are at
// least as long as keys. A second bucket is asked for, and looked into, with the group of keys that
// follows: so the few keys that need one have no wait of their own.
func (t *Table) GetBatch(keys, values []uint64, ok []bool) {
	var (
		at     [2 * gopt.Batch]uint32 // second buckets of the group before, then first ones
		hashes [gopt.Batch]uint64
		again  [gopt.Batch]int // keys whose second buckets these are
		left   int             // how many
	)
	values, ok = values[:len(keys)], ok[:len(keys)]
	for from := 0; from < len(keys); {
		to := min(from+gopt.Batch, len(keys))
		group, fresh := keys[from:to], (*[gopt.Batch]uint32)(at[left:])
		for i, k := range group {
			hashes[i%gopt.Batch] = hash(k)
			fresh[i%gopt.Batch] = t.first(hashes[i%gopt.Batch])
		}
		gopt.PrefetchAt(t.buckets, at[:left+len(group)], 2)
		for j, i := range again[:left] {
			values[i], ok[i] = t.buckets[at[j]].get(keys[i])
		}
		left = 0
		v, o := values[from:to], ok[from:to]
		for i, k := range group {
			if k == 0 {
				v[i], o[i] = 0, false
				continue
			}
			b := &t.buckets[fresh[i%gopt.Batch]]
			p := b.findAll(k)
			v[i], o[i] = b.values[p%ways], p < ways
			// Without a branch: an entry that is not needed is written over.
			at[left%gopt.Batch], again[left%gopt.Batch] = t.second(hashes[i%gopt.Batch]), from+i
			left += int(p / ways)
		}
		from = to
	}
	gopt.PrefetchAt(t.buckets, at[:left], 2)
	for j, i := range again[:left] {
		values[i], ok[i] = t.buckets[at[j]].get(keys[i])
	}
}

// findAll is find without branches that depend on the keys; of 0 it finds anything. Equal is where
// a difference less one borrows. In a batch, whose lines have been asked for, it takes less time.
func (b *bucket) findAll(k uint64) uint {
	_, s := bits.Sub64(b.keys[0]^k, 1, 0)
	_, t := bits.Sub64(b.keys[1]^k, 1, 0)
	_, u := bits.Sub64(b.keys[2]^k, 1, 0)
	_, v := bits.Sub64(b.keys[3]^k, 1, 0)
	back := s<<3 | t*7 | u*6 | v*5
	_, s = bits.Sub64(b.keys[4]^k, 1, 0)
	_, t = bits.Sub64(b.keys[5]^k, 1, 0)
	_, u = bits.Sub64(b.keys[6]^k, 1, 0)
	_, v = bits.Sub64(b.keys[7]^k, 1, 0)
	return ways - uint(back|s<<2|t*3|u<<1|v)
}

// get returns the value of a k other than 0.
func (b *bucket) get(k uint64) (value uint64, ok bool) {
	if i := b.findAll(k); i < ways {
		return b.values[i], true
	}
	return 0, false
}

// Put stores a value. Errors: ErrKey, ErrFull; then nothing has changed but places.
func (t *Table) Put(k, value uint64) error {
	if k == 0 {
		return ErrKey
	}
	h := hash(k)
	a, b := &t.buckets[t.first(h)], &t.buckets[t.second(h)]
	for _, x := range [2]*bucket{a, b} {
		if i := x.find(k); i < ways {
			x.values[i] = value
			return nil
		}
	}
	for _, x := range [2]*bucket{a, b} {
		if i := x.find(0); i < ways {
			x.keys[i], x.values[i] = k, value
			t.n++
			return nil
		}
	}
	return t.kick(k, value)
}

// kick makes room along a random walk. If it finds none it moves all back.
func (t *Table) kick(k, value uint64) error {
	type move struct {
		at    uint32
		place int
	}
	var path [maxKicks]move
	at := t.first(hash(k))
	for n := range path {
		b := &t.buckets[at]
		if i := b.find(0); i < ways {
			b.keys[i], b.values[i] = k, value
			t.n++
			return nil
		}
		t.seed = t.seed*6364136223846793005 + 1442695040888963407
		i := int(t.seed >> 61)
		path[n] = move{at, i}
		k, b.keys[i] = b.keys[i], k
		value, b.values[i] = b.values[i], value
		h := hash(k)
		if other := t.first(h); other != at {
			at = other
		} else {
			at = t.second(h)
		}
	}
	for n := len(path) - 1; n >= 0; n-- {
		b, i := &t.buckets[path[n].at], path[n].place
		k, b.keys[i] = b.keys[i], k
		value, b.values[i] = b.values[i], value
	}
	return ErrFull
}

// Delete removes a key and reports whether it was there.
func (t *Table) Delete(k uint64) bool {
	h := hash(k)
	for _, at := range [2]uint32{t.first(h), t.second(h)} {
		if i := t.buckets[at].find(k); i < ways && k != 0 {
			t.buckets[at].keys[i], t.buckets[at].values[i] = 0, 0
			t.n--
			return true
		}
	}
	return false
}

// MAC is an Ethernet address.
type MAC [6]byte

// Switch maps MAC addresses to output ports.
type Switch struct{ table *Table }

// NewSwitch returns a Switch for n addresses.
func NewSwitch(n int) *Switch { return &Switch{New(n)} }

// number returns a as a key, which is not 0.
func (a MAC) number() uint64 {
	return 1<<48 | uint64(binary.BigEndian.Uint16(a[:]))<<32 | uint64(binary.BigEndian.Uint32(a[2:]))
}

// Learn remembers the port of an address. The error is ErrFull.
func (s *Switch) Learn(a MAC, port uint16) error { return s.table.Put(a.number(), uint64(port)) }

// Forget removes an address and reports whether it was there.
func (s *Switch) Forget(a MAC) bool { return s.table.Delete(a.number()) }

// Port returns the port of an address.
func (s *Switch) Port(a MAC) (port uint16, ok bool) {
	v, ok := s.table.Get(a.number())
	return uint16(v), ok
}

// PortBatch looks all addresses up, interleaved: ports[i] and ok[i] are those of list[i].
func (s *Switch) PortBatch(list []MAC, ports []uint16, ok []bool) {
	var keys, values [gopt.Batch]uint64
	for len(list) > 0 {
		n := min(len(list), gopt.Batch)
		for i, a := range list[:n] {
			keys[i] = a.number()
		}
		s.table.GetBatch(keys[:n], values[:], ok)
		for i, v := range values[:n] {
			ports[i] = uint16(v)
		}
		list, ports, ok = list[n:], ports[n:], ok[n:]
	}
}
