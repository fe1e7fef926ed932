package message

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/index"
)

// Types of requests for a map of values of any length.
const (
	GetBytes uint8 = Count + 1 + iota
	PutBytes
	AbsentBytes
	DeleteBytes
	ScanBytes
)

// Limits of values.
const (
	MaxValue = 1 << 20 // bytes of a value
	// An answer to ScanBytes ends with the entry that makes it as long as this.
	MaxBytesPage = 1 << 18
)

// ErrValueTooLarge means that a value to be stored has more than MaxValue bytes. Nothing was
// stored.
var ErrValueTooLarge = errors.New("index: value larger than 1 MiB")

// AppendPutBytes appends a request of type PutBytes or AbsentBytes. Errors: index.ErrKeyTooLong,
// ErrValueTooLarge.
func AppendPutBytes(b, key, value []byte) ([]byte, error) {
	switch {
	case len(key) > index.MaxKey:
		return b, index.ErrKeyTooLong
	case len(value) > MaxValue:
		return b, ErrValueTooLarge
	}
	b = append(append(b, byte(len(key))), key...)
	return append(b, value...), nil
}

// ParsePutBytes reads a request of type PutBytes or AbsentBytes; key and value are parts of b.
// Errors: ErrRequest, ErrValueTooLarge.
func ParsePutBytes(b []byte) (key, value []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return nil, nil, fmt.Errorf("%w: a put of %d bytes", ErrRequest, len(b))
	}
	end := 1 + int(b[0])
	if len(b)-end > MaxValue {
		return nil, nil, ErrValueTooLarge
	}
	return b[1:end], b[end:], nil
}

// found is the first byte of a response with a value.
const found = 1

// FoundSize returns the size of a response to GetBytes, PutBytes, AbsentBytes or DeleteBytes.
func FoundSize(value []byte, there bool) int {
	if !there {
		return 0
	}
	return 1 + len(value)
}

// PutFound writes such a response to b, which has its size.
func PutFound(b, value []byte) {
	if len(b) > 0 {
		b[0] = found
		copy(b[1:], value)
	}
}

// ParseFound reads such a response; the value is part of b. The error is ErrResponse.
func ParseFound(b []byte) (value []byte, there bool, err error) {
	switch {
	case len(b) == 0:
		return nil, false, nil
	case b[0] != found || len(b) > 1+MaxValue:
		return nil, false, fmt.Errorf("%w: a value of %d bytes", ErrResponse, len(b))
	}
	return b[1:], true, nil
}

// AppendBytesEntry appends an entry of a response to ScanBytes, which begins with a byte of flags.
func AppendBytesEntry(b, key, value []byte) []byte {
	b = append(append(b, byte(len(key))), key...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(value))), value...)
}

// BytesEntries is a checked response to ScanBytes.
type BytesEntries struct {
	b    []byte
	more bool
}

// ParseBytesEntries checks a response to ScanBytes, which it keeps. The error is ErrResponse.
func ParseBytesEntries(b []byte) (BytesEntries, error) {
	if len(b) < 1 || b[0] > More {
		return BytesEntries{}, fmt.Errorf("%w: a page of %d bytes", ErrResponse, len(b))
	}
	e := BytesEntries{b[1:], b[0] == More}
	n := 0
	for rest := e.b; len(rest) > 0; n++ {
		head := 1 + int(rest[0]) + 4
		if head > len(rest) {
			return BytesEntries{}, fmt.Errorf("%w: a page that ends in entry %d", ErrResponse, n)
		}
		size := binary.LittleEndian.Uint32(rest[head-4:])
		if size > MaxValue || int(size) > len(rest)-head {
			return BytesEntries{}, fmt.Errorf("%w: a page that ends in entry %d", ErrResponse, n)
		}
		rest = rest[head+int(size):]
	}
	if e.more && n == 0 {
		return BytesEntries{}, fmt.Errorf("%w: an empty page before others", ErrResponse)
	}
	return e, nil
}

// More reports whether there may be further keys.
func (e *BytesEntries) More() bool { return e.more }

// Next takes the next entry; key and value are parts of the response. ok is false at the end.
func (e *BytesEntries) Next() (key, value []byte, ok bool) {
	if len(e.b) == 0 {
		return nil, nil, false
	}
	n := 1 + int(e.b[0])
	size := int(binary.LittleEndian.Uint32(e.b[n:]))
	key, value = e.b[1:n], e.b[n+4:n+4+size]
	e.b = e.b[n+4+size:]
	return key, value, true
}
