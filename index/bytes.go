package index

import (
	"bytes"
	"iter"
	"sync/atomic"
)

// Bytes is an ordered map of keys of 0 to MaxKey bytes to values of any length. Any number of
// goroutines may use it. It copies keys and values that it is given. A value that it gives is never
// written to again, and must not be by others.
type Bytes struct {
	tree *tree[blob]
	keys counter
}

// blob is the value of a Bytes: nil once its key is deleted.
type blob struct{ atomic.Pointer[[]byte] }

// load returns the value, if the key has not been deleted since it was found.
func (b *blob) load() (value []byte, ok bool) {
	if b == nil {
		return nil, false
	}
	p := b.Load()
	if p == nil {
		return nil, false
	}
	return *p, true
}

// NewBytes returns an empty map.
func NewBytes() *Bytes { return &Bytes{tree: newTree[blob](nil)} }

// Get returns the value of key. It takes no lock and does not allocate.
func (m *Bytes) Get(key []byte) (value []byte, ok bool) { return m.tree.find(key).load() }

// GetBatch looks up all keys, interleaved: values[i] and ok[i] are those of keys[i]. Both slices
// are at least as long as keys. It takes no lock and does not allocate.
func (m *Bytes) GetBatch(keys, values [][]byte, ok []bool) {
	var cells [batch]*blob
	for len(keys) > 0 {
		n := min(len(keys), batch)
		m.tree.findBatch(keys[:n], &cells)
		for i, c := range cells[:n] {
			values[i], ok[i] = c.load()
		}
		keys, values, ok = keys[n:], values[n:], ok[n:]
	}
}

// Put stores a copy of value and returns the one that it replaces, if there was one. The error is
// ErrKeyTooLong.
func (m *Bytes) Put(key, value []byte) (old []byte, replaced bool, err error) {
	return m.put(key, value, true)
}

// PutIfAbsent stores a copy of value if key has none. Otherwise it returns the one that is there.
// The error is ErrKeyTooLong.
func (m *Bytes) PutIfAbsent(key, value []byte) (there []byte, present bool, err error) {
	return m.put(key, value, false)
}

func (m *Bytes) put(key, value []byte, replace bool) (old []byte, found bool, err error) {
	if len(key) > MaxKey {
		return nil, false, ErrKeyTooLong
	}
	s := m.tree.lockKey(key, true)
	if s.here {
		c := s.cell()
		old, _ = c.load()
		if replace {
			own := bytes.Clone(value)
			point(pointPublish)
			c.Store(&own)
		}
		s.leaf.mu.Unlock()
		return old, true, nil
	}
	var b blob
	own := bytes.Clone(value)
	b.Store(&own)
	s.insert(&b)
	m.keys.add(1)
	return nil, false, nil
}

// Delete removes a key and returns its value, if it was there.
func (m *Bytes) Delete(key []byte) (old []byte, deleted bool) {
	if len(key) > MaxKey {
		return nil, false
	}
	s := m.tree.lockKey(key, false)
	if !s.here {
		s.leaf.mu.Unlock()
		return nil, false
	}
	c := s.cell()
	old, _ = c.load()
	if s.remove() {
		m.tree.prune(key)
	}
	// Its place is used again only in another leaf. Until then it must not keep the value. A reader
	// that found the key before finds it absent now, as it is.
	c.Store(nil)
	m.keys.add(-1)
	return old, true
}

// Len returns the number of keys. While others write it is one of some moment, about.
func (m *Bytes) Len() int { return m.keys.sum() }

// Ascend returns the keys from a key on and their values, in order; all of them from nil. A key is
// the iterator's own and changes with the next one.
func (m *Bytes) Ascend(from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var buf keyBuf
		visit := func(key []byte, c *blob) bool { return c.visit(key, yield) }
		m.tree.ascend(&buf, 0, from, someKeys, visit, nil)
	}
}

// Descend returns the keys up to a key and their values, the largest first; all of them from nil.
// A key is the iterator's own and changes with the next one.
func (m *Bytes) Descend(to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		var buf keyBuf
		m.tree.descendAll(&buf, 0, to, to == nil, func(key []byte, c *blob) bool {
			return c.visit(key, yield)
		})
	}
}

// visit calls yield, unless the key has been deleted meanwhile.
func (b *blob) visit(key []byte, yield func(key, value []byte) bool) bool {
	value, ok := b.load()
	return !ok || yield(key, value)
}

// Check is that of Map.
func (m *Bytes) Check() (Stats, error) { return checkMap(m.tree, m.Len()) }
