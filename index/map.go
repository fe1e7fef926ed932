package index

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// MaxKey is the length of the longest key in bytes.
const MaxKey = 255

// ErrKeyTooLong means that a key to be stored has more than MaxKey bytes. Nothing was stored.
var ErrKeyTooLong = errors.New("index: key longer than 255 bytes")

// Map is an ordered map of keys of 0 to MaxKey bytes to values of 8 bytes. Any number of goroutines
// may use it. It keeps no key that it is given.
type Map struct {
	tree *tree[word]
	keys counter
}

// NewMap returns an empty Map.
func NewMap() *Map { return &Map{tree: newTree[word](nil)} }

// Get returns the value of key. It takes no lock and does not allocate.
func (m *Map) Get(key []byte) (value uint64, ok bool) {
	if c := m.tree.find(key); c != nil {
		return c.Load(), true
	}
	return 0, false
}

// Put stores a value and returns the one that it replaces, if there was one. The error is
// ErrKeyTooLong.
func (m *Map) Put(key []byte, value uint64) (old uint64, replaced bool, err error) {
	return m.put(key, value, true)
}

// PutIfAbsent stores a value if key has none. Otherwise it returns the one that is there. The error
// is ErrKeyTooLong.
func (m *Map) PutIfAbsent(key []byte, value uint64) (there uint64, present bool, err error) {
	return m.put(key, value, false)
}

func (m *Map) put(key []byte, value uint64, replace bool) (old uint64, found bool, err error) {
	if len(key) > MaxKey {
		return 0, false, ErrKeyTooLong
	}
	s := m.tree.lockKey(key, true)
	if s.here {
		c := s.cell()
		old = c.Load()
		if replace {
			point(pointPublish)
			c.Store(value)
		}
		s.leaf.mu.Unlock()
		return old, true, nil
	}
	s.insert(&word{value})
	m.keys.add(1)
	return 0, false, nil
}

// Delete removes a key and returns its value, if it was there.
func (m *Map) Delete(key []byte) (old uint64, deleted bool) {
	if len(key) > MaxKey {
		return 0, false
	}
	s := m.tree.lockKey(key, false)
	if !s.here {
		s.leaf.mu.Unlock()
		return 0, false
	}
	old = s.cell().Load()
	if s.remove() {
		m.tree.prune(key)
	}
	m.keys.add(-1)
	return old, true
}

// Len returns the number of keys. While others write it is one of some moment, about.
func (m *Map) Len() int { return m.keys.sum() }

// counter counts in several cache lines, so that writers of different keys seldom share one.
type counter [16]struct {
	n atomic.Int64
	_ [56]byte
}

func (c *counter) add(n int64) { c[caller()%len(c)].n.Add(n) }

// caller returns a number of 0 to 255 that is seldom that of another goroutine: it follows from
// where the stack is, of which each goroutine has 2 KiB at least. Schedules of tests are to be the
// same each time.
func caller() int {
	if scheduled() {
		return 0
	}
	var here byte
	return int(uint64(uintptr(unsafe.Pointer(&here))) >> 11 * 0x9E3779B97F4A7C15 >> 56)
}

func (c *counter) sum() int {
	var n int64
	for i := range c {
		n += c[i].n.Load()
	}
	return int(n)
}
