package kv

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// shard is a part of the keys: a table with open addressing, in which each key and its value lie
// side by side. At most three of four slots are in use. The zero value is empty.
type shard struct {
	slots []item // a power of two, or none
	used  int
}

// item is a slot. A key has at least one byte, so that one without is free.
type item struct {
	key Key
	val Value
}

// leastSlots is the size of the smallest table.
const leastSlots = 4

// seed is the secret of a store's hashes: nobody can choose keys that share a slot.
type seed [2]uint64

func newSeed() seed { return seed{rand.Uint64() | 1, rand.Uint64() | 1} }

// hash spreads keys over shards by its low bits, and over slots by its high ones.
func (s *seed) hash(k *Key) uint64 {
	a := binary.LittleEndian.Uint64(k.b[:8]) ^ s[0]
	b := binary.LittleEndian.Uint64(k.b[8:]) ^ s[1] ^ uint64(k.n)<<56
	hi, lo := bits.Mul64(a, b)
	hi, lo = bits.Mul64(hi^lo^s[1], s[0]^0x9E3779B97F4A7C15)
	return hi ^ lo
}

// home is the slot at which the search for a key begins.
func (t *shard) home(h uint64) uint64 { return h >> 32 & uint64(len(t.slots)-1) }

// find returns the slot of a key, or the free one where the search ends, nil if there is no table.
func (t *shard) find(k *Key, h uint64) (it *item, found bool) {
	if len(t.slots) == 0 {
		return nil, false
	}
	for i := t.home(h); ; i = (i + 1) & uint64(len(t.slots)-1) {
		it = &t.slots[i]
		if it.key == *k {
			return it, true
		}
		if it.key.n == 0 {
			return it, false
		}
	}
}

// put sets a key, for which find has returned it and found.
func (t *shard) put(s *seed, k *Key, h uint64, it *item, found bool, v *Value) {
	if !found {
		if t.used >= len(t.slots)/4*3 {
			t.grow(s, max(2*len(t.slots), leastSlots))
			it, _ = t.find(k, h)
		}
		it.key = *k
		t.used++
	}
	it.val = *v
}

// grow makes the table one of at least size slots.
func (t *shard) grow(s *seed, size int) {
	old := t.slots
	t.slots = make([]item, 1<<bits.Len(uint(size-1)))
	for i := range old {
		if k := &old[i].key; k.n > 0 {
			it, _ := t.find(k, s.hash(k))
			*it = old[i]
		}
	}
}

// reserve makes room for n keys.
func (t *shard) reserve(s *seed, n int) {
	if size := max(n*4/3, leastSlots); size > len(t.slots) {
		t.grow(s, size)
	}
}

// remove frees the slot of a key. Those behind it move up to where a search for them comes by.
func (t *shard) remove(s *seed, it *item) {
	mask := uint64(len(t.slots) - 1)
	hole := t.home(s.hash(&it.key))
	for &t.slots[hole] != it {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.slots[i].key.n > 0; i = (i + 1) & mask {
		if home := t.home(s.hash(&t.slots[i].key)); (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = item{}
	t.used--
}

// each calls f with every key. f must not change the table.
func (t *shard) each(f func(*Key, *Value)) {
	for i := range t.slots {
		if it := &t.slots[i]; it.key.n > 0 {
			f(&it.key, &it.val)
		}
	}
}
