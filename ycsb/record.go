package ycsb

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Schema is the shape of a record. The zero value stands for YCSB's: 10 fields of 100 bytes.
type Schema struct {
	Fields     int
	FieldBytes int // each; at least 16
}

// least is the bytes of the smallest field: a version and as much to check it by.
const least = 16

// Complete returns s with the default for what is zero. The error matches ErrSchema.
func (s Schema) Complete() (Schema, error) {
	if s.Fields == 0 {
		s.Fields = 10
	}
	if s.FieldBytes == 0 {
		s.FieldBytes = 100
	}
	if s.Fields < 1 || s.Fields > 1<<10 || s.FieldBytes < least || s.FieldBytes > 1<<20 {
		return s, fmt.Errorf("%w: %d fields of %d bytes: 1 to 1024 of 16 to 1048576 are possible",
			ErrSchema, s.Fields, s.FieldBytes)
	}
	return s, nil
}

// Bytes is the length of a record.
func (s Schema) Bytes() int { return s.Fields * s.FieldBytes }

// Fill writes a whole record of the key, all fields of one version. dst has s.Bytes().
func (s Schema) Fill(dst, key []byte, version uint64) {
	for f := range s.Fields {
		s.FillField(dst[f*s.FieldBytes:][:s.FieldBytes], key, f, version)
	}
}

// FillField writes a field. dst has s.FieldBytes.
func (s Schema) FillField(dst, key []byte, field int, version uint64) {
	binary.LittleEndian.PutUint64(dst, version)
	x := start(key, field, version)
	rest := dst[8:]
	for ; len(rest) >= 8; rest = rest[8:] {
		x += golden
		binary.LittleEndian.PutUint64(rest, word(x))
	}
	for w := word(x + golden); len(rest) > 0; rest = rest[1:] {
		rest[0] = byte(w)
		w >>= 8
	}
}

// golden is 2^64 divided by the golden ratio: the distance of the states of a stream.
const golden = 0x9e3779b97f4a7c15

// word is the part of a stream for a state. Words do not wait for each other, so that the check of
// a record takes some 100 ns beside calls of microseconds.
func word(x uint64) uint64 { return x*0xbf58476d1ce4e5b9 ^ x>>31 }

// start begins the stream of a field: the hash of all that determines it.
func start(key []byte, field int, version uint64) uint64 {
	h := hash(version<<10 ^ version>>54 ^ uint64(field))
	for ; len(key) >= 8; key = key[8:] {
		h = step(h ^ binary.LittleEndian.Uint64(key))
	}
	for _, c := range key {
		h = step(h ^ uint64(c))
	}
	return h
}

// step is the finalizer of splitmix64 (G. Steele et al., OOPSLA 2014).
func step(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Errors of records.
var (
	ErrLength  = errors.New("ycsb: a record of the wrong length")
	ErrContent = errors.New("ycsb: a field that nobody wrote like this")
)

// Check looks at each byte of a record of the key and puts the versions of its fields into
// versions, which has room for s.Fields. The error matches ErrLength or ErrContent.
func (s Schema) Check(record, key []byte, versions []uint64) error {
	if len(record) != s.Bytes() {
		return fmt.Errorf("%w: %d bytes, not %d", ErrLength, len(record), s.Bytes())
	}
	for f := range s.Fields {
		field := record[f*s.FieldBytes:][:s.FieldBytes]
		versions[f] = binary.LittleEndian.Uint64(field)
		if !genuine(field[8:], start(key, f, versions[f])) {
			return fmt.Errorf("%w: field %d of %s, version %#x", ErrContent, f, key, versions[f])
		}
	}
	return nil
}

// genuine reports whether rest is the stream that begins behind x.
func genuine(rest []byte, x uint64) bool {
	for ; len(rest) >= 8; rest = rest[8:] {
		if x += golden; binary.LittleEndian.Uint64(rest) != word(x) {
			return false
		}
	}
	for w := word(x + golden); len(rest) > 0; rest = rest[1:] {
		if rest[0] != byte(w) {
			return false
		}
		w >>= 8
	}
	return true
}
