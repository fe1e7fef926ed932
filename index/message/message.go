package message

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/index"
)

// Request types.
const (
	Get uint8 = 1 + iota
	Put
	Absent
	Delete
	Sum
	Scan
	Count
)

// Limits of one answer.
const (
	MaxSum     = 4096 // keys that a Sum adds
	MaxEntries = 1024 // keys that a Scan returns
	MaxPage    = 1 + MaxEntries*(1+index.MaxKey+8)
)

// More is the flag of answers that ended at a limit of the server.
const More = 1

// MaxRequest is the size of the largest request in bytes.
const MaxRequest = 8 + index.MaxKey

// Errors of messages.
var (
	ErrRequest  = errors.New("index: malformed request")
	ErrResponse = errors.New("index: malformed response")
	// ErrFull means that the server takes no PUTs before something is deleted.
	ErrFull = errors.New("index: the server's memory is full")
	// ErrReadOnly means that the server takes no writes any more; one that got this error may be in
	// its map, and in its log, or not.
	ErrReadOnly = errors.New("index: the server's log has failed, and it takes no writes")
)

// Page is a request of type Sum or Scan.
type Page struct {
	Key   []byte
	After bool // begin behind Key
	Count uint32
}

const pageHead = 5

// AppendKey appends a request of type Get or Delete. The error is index.ErrKeyTooLong.
func AppendKey(b, key []byte) ([]byte, error) {
	if len(key) > index.MaxKey {
		return b, index.ErrKeyTooLong
	}
	return append(b, key...), nil
}

// AppendPut appends a request of type Put or Absent. The error is index.ErrKeyTooLong.
func AppendPut(b, key []byte, value uint64) ([]byte, error) {
	return AppendKey(binary.LittleEndian.AppendUint64(b, value), key)
}

// Append appends a request of type Sum or Scan. The error is index.ErrKeyTooLong.
func (p Page) Append(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, p.Count)
	return AppendKey(append(b, flag(p.After)), p.Key)
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// ParseKey reads a request of type Get or Delete; the key is part of b. The error is
// index.ErrKeyTooLong.
func ParseKey(b []byte) (key []byte, err error) {
	if len(b) > index.MaxKey {
		return nil, index.ErrKeyTooLong
	}
	return b, nil
}

// ParsePut reads a request of type Put or Absent; the key is part of b. Errors: ErrRequest,
// index.ErrKeyTooLong.
func ParsePut(b []byte) (key []byte, value uint64, err error) {
	if len(b) < 8 {
		return nil, 0, fmt.Errorf("%w: a put of %d bytes", ErrRequest, len(b))
	}
	key, err = ParseKey(b[8:])
	return key, binary.LittleEndian.Uint64(b), err
}

// ParsePage reads a request of type Sum or Scan; the key is part of b. Errors: ErrRequest,
// index.ErrKeyTooLong.
func ParsePage(b []byte) (p Page, err error) {
	if len(b) < pageHead || b[4] > 1 {
		return p, fmt.Errorf("%w: a scan of %d bytes", ErrRequest, len(b))
	}
	p.Count, p.After = binary.LittleEndian.Uint32(b), b[4] == 1
	p.Key, err = ParseKey(b[pageHead:])
	return p, err
}

// AppendValue appends a response of 8 bytes, or none.
func AppendValue(b []byte, value uint64, there bool) []byte {
	if there {
		b = binary.LittleEndian.AppendUint64(b, value)
	}
	return b
}

// ParseValue reads a response to Get, Put, Absent, Delete or Count. The error is ErrResponse.
func ParseValue(b []byte) (value uint64, there bool, err error) {
	switch len(b) {
	case 0:
		return 0, false, nil
	case 8:
		return binary.LittleEndian.Uint64(b), true, nil
	}
	return 0, false, fmt.Errorf("%w: a value of %d bytes", ErrResponse, len(b))
}

// Total is a response to Sum.
type Total struct {
	Count uint32
	Sum   uint64
	More  bool
	Last  []byte // the last key, if More
}

// Append appends the response.
func (t Total) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, flag(t.More)), t.Count)
	return append(binary.LittleEndian.AppendUint64(b, t.Sum), t.Last...)
}

// ParseTotal reads a response to Sum; Last is part of b. The error is ErrResponse.
func ParseTotal(b []byte) (t Total, err error) {
	if len(b) < 13 || b[0] > More || b[0] == 0 && len(b) > 13 || len(b) > 13+index.MaxKey {
		return t, fmt.Errorf("%w: a sum of %d bytes", ErrResponse, len(b))
	}
	t = Total{Count: binary.LittleEndian.Uint32(b[1:]), Sum: binary.LittleEndian.Uint64(b[5:])}
	if t.More = b[0] == More; t.More {
		t.Last = b[13:]
	}
	return t, nil
}

// AppendEntry appends an entry of a response to Scan, which begins with a byte of flags.
func AppendEntry(b, key []byte, value uint64) []byte {
	b = append(append(b, byte(len(key))), key...)
	return binary.LittleEndian.AppendUint64(b, value)
}

// Entries is a checked response to Scan.
type Entries struct {
	b    []byte
	more bool
}

// ParseEntries checks a response to Scan, which it keeps. The error is ErrResponse.
func ParseEntries(b []byte) (Entries, error) {
	if len(b) < 1 || b[0] > More {
		return Entries{}, fmt.Errorf("%w: a page of %d bytes", ErrResponse, len(b))
	}
	e := Entries{b[1:], b[0] == More}
	n := 0
	for rest := e.b; len(rest) > 0; n++ {
		size := 1 + int(rest[0]) + 8
		if size > len(rest) {
			return Entries{}, fmt.Errorf("%w: a page that ends in entry %d", ErrResponse, n)
		}
		rest = rest[size:]
	}
	if e.more && n == 0 {
		return Entries{}, fmt.Errorf("%w: an empty page before others", ErrResponse)
	}
	return e, nil
}

// More reports whether there may be further keys.
func (e *Entries) More() bool { return e.more }

// Next takes the next entry; the key is part of the response. ok is false at the end.
func (e *Entries) Next() (key []byte, value uint64, ok bool) {
	if len(e.b) == 0 {
		return nil, 0, false
	}
	n := 1 + int(e.b[0])
	key, value = e.b[1:n], binary.LittleEndian.Uint64(e.b[n:])
	e.b = e.b[n+8:]
	return key, value, true
}
