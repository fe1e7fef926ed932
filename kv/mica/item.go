package mica

import (
	"encoding/binary"
	"sync/atomic"
)

// unit is the size in bytes of what offsets count.
const unit = 8

// lineUnits is how many units a cache line has.
const lineUnits = 8

// Bits of word 1 of an item.
const (
	bitDead     = 1 << iota // log: nobody refers to the item. heap: the block is free
	bitPrevFree             // heap: the block before this one is free
	bitFlags                // the item has a word of flags
	// Marks follow, then in a heap the slack: units of the block behind the item.
)

const (
	slackShift   = 6
	maxSlack     = 7
	versionShift = 16
	versionMask  = 1<<48 - 1
)

// Item is the result of a lookup. Value is a view.
type Item struct {
	Value   []byte
	Version uint64 // changes with each write to the item
	Flags   uint32 // the client's, as they were written
	Expires uint32 // on the clock of SetNow; 0: never
}

// space is memory for items.
type space struct {
	bytes  []byte
	words  []uint64
	shared bool // others read it meanwhile
}

// set writes a word.
func (s *space) set(i, word uint64) {
	if !s.shared {
		s.words[i] = word
		return
	}
	atomic.StoreUint64(&s.words[i], word)
}

// sizes returns the lengths of key and value, and where the key begins, in bytes.
func (s *space) sizes(pos uint64) (key, value, at uint64) {
	w := s.words[pos]
	at = (pos + 2) * unit
	if s.words[pos+1]&bitFlags != 0 {
		at += unit
	}
	return w & 0xFF, w >> 8 & 0xFFFFFF, at
}

// units returns the size of an item.
func units(key, value int, flags uint32) uint64 {
	n := headBytes + key + value
	if flags != 0 {
		n += unit
	}
	return uint64(n+unit-1) / unit
}

// size returns the size of the item at pos in units.
func (s *space) size(pos uint64) uint64 {
	key, value, at := s.sizes(pos)
	return (at+key+value+unit-1)/unit - pos
}

// has reports whether the item at pos has that key.
func (s *space) has(pos uint64, key []byte) bool {
	n, _, at := s.sizes(pos)
	return n == uint64(len(key)) && string(s.bytes[at:at+n]) == string(key)
}

func (s *space) key(pos uint64) []byte {
	n, _, at := s.sizes(pos)
	return s.bytes[at : at+n : at+n]
}

func (s *space) expires(pos uint64) uint32 { return uint32(s.words[pos] >> 32) }

func (s *space) setExpires(pos uint64, t uint32) {
	s.set(pos, s.words[pos]&0xFFFFFFFF|uint64(t)<<32)
}

func (s *space) version(pos uint64) uint64 { return s.words[pos+1] >> versionShift }

// read makes it a view of the item at pos.
func (s *space) read(pos uint64, it *Item) {
	w := s.words[pos : pos+2 : pos+2]
	at := (pos+2)*unit + w[0]&0xFF
	it.Flags = 0
	if w[1]&bitFlags != 0 {
		it.Flags = uint32(s.words[pos+2])
		at += unit
	}
	end := at + w[0]>>8&0xFFFFFF
	it.Value, it.Version, it.Expires = s.bytes[at:end:end], w[1]>>versionShift, uint32(w[0]>>32)
}

// content is an item to write.
type content struct {
	key, value     []byte
	flags, expires uint32
	version        uint64 // 0: the next one
	marks          Marks
}

func (c *content) units() uint64 { return units(len(c.key), len(c.value), c.flags) }

// put writes an item, with the given bits beside bitFlags.
func (s *space) put(pos uint64, c *content, version, bits uint64) {
	at := pos + 2
	bits |= uint64(c.marks) << marksShift
	if c.flags != 0 {
		bits |= bitFlags
		s.set(at, uint64(c.flags))
		at++
	}
	s.set(pos, uint64(len(c.key))|uint64(len(c.value))<<8|uint64(c.expires)<<32)
	s.set(pos+1, bits|version<<versionShift)
	if s.shared {
		s.putBytes(at, c.key, c.value)
		return
	}
	to := s.bytes[at*unit:]
	copy(to[copy(to, c.key):], c.value)
}

// putBytes writes two texts, one behind the other, word by word from a word on.
func (s *space) putBytes(at uint64, first, second []byte) {
	for len(first) >= unit {
		atomic.StoreUint64(&s.words[at], binary.NativeEndian.Uint64(first))
		first = first[unit:]
		at++
	}
	if len(first) > 0 {
		var word [unit]byte
		n := copy(word[:], first)
		second = second[copy(word[n:], second):]
		atomic.StoreUint64(&s.words[at], binary.NativeEndian.Uint64(word[:]))
		at++
	}
	for len(second) >= unit {
		atomic.StoreUint64(&s.words[at], binary.NativeEndian.Uint64(second))
		second = second[unit:]
		at++
	}
	if len(second) > 0 {
		var word [unit]byte
		copy(word[:], second)
		atomic.StoreUint64(&s.words[at], binary.NativeEndian.Uint64(word[:]))
	}
}

// move copies n words within the memory; they do not overlap.
func (s *space) move(to, from, n uint64) {
	if !s.shared {
		copy(s.words[to:to+n], s.words[from:from+n])
		return
	}
	for i := range n {
		atomic.StoreUint64(&s.words[to+i], s.words[from+i])
	}
}
