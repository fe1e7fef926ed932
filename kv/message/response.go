package message

import (
	"fmt"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Status begins a response.
type Status uint8

// The statuses.
const (
	OK Status = iota
	NotFound
	Exists
	Changed // the item has another version
	Full
	TooLarge
	NoNumber
	Later     // in an answer to MultiGet: not looked up
	FullIndex // Full is without place for the item
)

// known has the error of each status that has one.
var known = [...]error{NotFound: mica.ErrNotFound, Exists: mica.ErrExists,
	Changed: mica.ErrVersion, Full: mica.ErrFullItems, TooLarge: mica.ErrTooLarge,
	NoNumber: mica.ErrNumber, FullIndex: mica.ErrFullIndex}

// StatusOf returns the status of an error of a partition; ok is false if it has none.
func StatusOf(err error) (s Status, ok bool) {
	for i, e := range known {
		if e == err {
			return Status(i), true
		}
	}
	return 0, false
}

// open takes the status off a response, whose body has size bytes at least. The error is that of
// the status, or ErrResponse.
func open(b []byte, size int) ([]byte, error) {
	switch {
	case len(b) < 1 || int(b[0]) >= len(known):
		return nil, fmt.Errorf("%w: a status in %d bytes", ErrResponse, len(b))
	case len(b) == 1 && known[b[0]] != nil:
		return nil, known[b[0]]
	case b[0] != 0 || len(b) < 1+size:
		return nil, fmt.Errorf("%w: status %d, %d bytes", ErrResponse, b[0], len(b))
	}
	return b[1:], nil
}

// Value is an item in a response to Get, Touch or MultiGet.
type Value struct {
	Value   []byte
	Version uint64
	Flags   uint32
}

// FoundHead is the size of a response to Get before the value.
const FoundHead = 13

// PutFound writes what precedes the value of a response to Get or Touch to b, FoundHead bytes.
func PutFound(b []byte, it *mica.Item) {
	b[0] = byte(OK)
	le.PutUint32(b[1:], it.Flags)
	le.PutUint64(b[5:], it.Version)
}

// ParseFound reads a response to Get or Touch; the value is part of b. Errors: mica.ErrNotFound,
// ErrResponse.
func ParseFound(b []byte) (v Value, err error) {
	if b, err = open(b, FoundHead-1); err != nil {
		return v, err
	}
	v = Value{Flags: le.Uint32(b), Version: le.Uint64(b[4:]), Value: b[12:]}
	if len(v.Value) > mica.MaxValue {
		return Value{}, fmt.Errorf("%w: a value of %d bytes", ErrResponse, len(v.Value))
	}
	return v, nil
}

// AppendNumbers appends a response to Write (version) or Increment (value, version).
func AppendNumbers(b []byte, list ...uint64) []byte {
	b = append(b, byte(OK))
	for _, n := range list {
		b = le.AppendUint64(b, n)
	}
	return b
}

// ParseNumbers reads a response to Write, Increment or Delete, with so many numbers as list has.
// Errors: those of the partition, ErrResponse.
func ParseNumbers(b []byte, list []uint64) (err error) {
	if b, err = open(b, 0); err != nil {
		return err
	}
	if len(b) != 8*len(list) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrResponse, len(b), 8*len(list))
	}
	for i := range list {
		list[i] = le.Uint64(b[8*i:])
	}
	return nil
}

const entryHead = 17

// AppendEntry appends an entry of a response to MultiGet.
func AppendEntry(b []byte, l *mica.Lookup) []byte {
	if !l.Found {
		return append(b, byte(NotFound))
	}
	b = le.AppendUint32(append(b, byte(OK)), l.Item.Flags)
	b = le.AppendUint32(le.AppendUint64(b, l.Item.Version), uint32(len(l.Item.Value)))
	return append(b, l.Item.Value...)
}

// EntrySize returns the size of an entry of a response to MultiGet in bytes.
func EntrySize(l *mica.Lookup) int {
	if !l.Found {
		return 1
	}
	return entryHead + len(l.Item.Value)
}

// NextEntry takes the next entry off a response to MultiGet, whose status has been taken off; the
// value is part of it. The status is OK, NotFound or Later. The error is ErrResponse.
func NextEntry(b []byte) (v Value, s Status, rest []byte, err error) {
	if len(b) < 1 {
		return v, 0, nil, fmt.Errorf("%w: too few entries", ErrResponse)
	}
	switch s = Status(b[0]); s {
	case NotFound, Later:
		return v, s, b[1:], nil
	case OK:
		if len(b) < entryHead {
			break
		}
		n := le.Uint32(b[13:])
		if n > mica.MaxValue || len(b) < entryHead+int(n) {
			break
		}
		end := entryHead + int(n)
		v = Value{Flags: le.Uint32(b[1:]), Version: le.Uint64(b[5:]), Value: b[entryHead:end]}
		return v, s, b[end:], nil
	}
	return v, 0, nil, fmt.Errorf("%w: an entry of %d bytes", ErrResponse, len(b))
}

// OpenEntries takes the status off a response to MultiGet. The error is ErrResponse.
func OpenEntries(b []byte) ([]byte, error) { return open(b, 0) }
