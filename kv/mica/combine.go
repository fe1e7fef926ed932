package mica

import (
	"bytes"
	"strconv"
)

// Concat appends to a value, or prepends to it if front is set. The item keeps its flags and its
// time. It returns the new version. Errors: those of Put, ErrNotFound, and ErrVersion if version is
// neither 0 nor the item's.
func (p *Partition) Concat(
	hash KeyHash, key, more []byte, front bool, version uint64,
) (uint64, error) {
	p.settle()
	at := p.find(hash, key)
	if at.b == nil {
		return 0, ErrNotFound
	}
	var old Item
	p.space().read(at.pos, &old)
	if version != 0 && old.Version != version {
		return 0, ErrVersion
	}
	if len(old.Value)+len(more) > MaxValue {
		return 0, ErrValue
	}
	if front {
		p.scratch = append(append(p.scratch[:0], more...), old.Value...)
	} else {
		p.scratch = append(append(p.scratch[:0], old.Value...), more...)
	}
	return p.rewrite(hash, key, at, &old)
}

// rewrite gives an item the value that is in scratch.
func (p *Partition) rewrite(hash KeyHash, key []byte, at place, old *Item) (uint64, error) {
	c := content{key: key, value: p.scratch, flags: old.Flags, expires: old.Expires}
	if err := p.check(&c); err != nil {
		return 0, err
	}
	v, err := p.store(hash, at, &c)
	if cap(p.scratch) > 64<<10 {
		p.scratch = nil
	}
	return v, err
}

// maxDigits is the length of the largest 64-bit number.
const maxDigits = 20

// Increment adds to a value that is a decimal number, or subtracts if down is set: modulo 2^64
// upwards, and down to 0. The item keeps its flags and its time. As in memcached a value that
// becomes shorter is padded by spaces, and what follows a space does not count. It returns the new
// number and version. Errors: ErrNotFound, ErrVersion if version is neither 0 nor the item's,
// ErrNumber, ErrFullItems.
func (p *Partition) Increment(
	hash KeyHash, key []byte, delta uint64, down bool, version uint64,
) (value, newVersion uint64, err error) {
	p.settle()
	at := p.find(hash, key)
	if at.b == nil {
		return 0, 0, ErrNotFound
	}
	var old Item
	p.space().read(at.pos, &old)
	switch {
	case len(old.Value) == 0:
		return 0, 0, ErrNumber // before the version, as in memcached
	case version != 0 && old.Version != version:
		return 0, 0, ErrVersion
	}
	value, ok := number(old.Value)
	if !ok {
		return 0, 0, ErrNumber
	}
	switch {
	case !down:
		value += delta
	case delta > value:
		value = 0
	default:
		value -= delta
	}
	p.scratch = strconv.AppendUint(p.scratch[:0], value, 10)
	for len(p.scratch) < len(old.Value) {
		p.scratch = append(p.scratch, ' ')
	}
	newVersion, err = p.rewrite(hash, key, at, &old)
	return value, newVersion, err
}

// number reads a decimal number, up to the first space if there is one.
func number(b []byte) (uint64, bool) {
	if end := bytes.IndexByte(b, ' '); end >= 0 {
		b = b[:end]
	}
	if len(b) == 0 || len(b) > maxDigits || b[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}
