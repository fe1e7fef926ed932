package frame

import (
	"encoding/binary"
	"errors"
)

// ErrFormat means that bytes are no message of this package.
var ErrFormat = errors.New("malformed message")

// Reader takes a message apart from its front. After the first part that is not there, all others
// are zero and OK reports false.
type Reader struct {
	rest []byte
	bad  bool
}

// NewReader returns a Reader of b, which it refers to.
func NewReader(b []byte) Reader { return Reader{rest: b} }

// OK reports whether all parts so far were there.
func (r *Reader) OK() bool { return !r.bad }

// Rest returns what has not been read, a part of the Reader's input.
func (r *Reader) Rest() []byte { return r.rest }

// Err returns ErrFormat if a part was not there.
func (r *Reader) Err() error {
	if r.bad {
		return ErrFormat
	}
	return nil
}

func (r *Reader) fail() { r.rest, r.bad = nil, true }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// Fixed reads 8 bytes, the low one first.
func (r *Reader) Fixed() uint64 {
	if len(r.rest) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// Number reads a varint.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Bytes reads a text with its length, as a part of the input.
func (r *Reader) Bytes() []byte {
	n := r.Number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// AppendBytes appends a text with its length.
func AppendBytes[T []byte | string](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
