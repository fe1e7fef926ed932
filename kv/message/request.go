package message

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Request types.
const (
	Get uint8 = 1 + iota
	Write
	Delete
	Increment
	Touch
	MultiGet
	Stats
	Info
)

// Limits.
const (
	MaxMulti  = 64      // keys of a MultiGet
	MaxAnswer = 2 << 20 // bytes of its response
	// MaxSmall is the size of the largest request but Write and MultiGet, in bytes.
	MaxSmall = 17 + mica.MaxKey
)

// Errors of messages.
var (
	ErrRequest   = errors.New("kv: malformed request")
	ErrResponse  = errors.New("kv: malformed response")
	ErrPartition = errors.New("kv: key of another partition")
	ErrHash      = errors.New("kv: the hash is not that of the key")
)

var le = binary.LittleEndian

// Keyed is a request of type Get, Delete, Increment or Touch. Fields that a type lacks are 0.
type Keyed struct {
	Hash    uint64
	Version uint64 // Delete
	Delta   uint64 // Increment
	Down    bool   // ... subtract
	Life    uint32 // Touch
	Key     []byte
}

// head is the size of what precedes the key.
func head(typ uint8) int {
	switch typ {
	case Delete:
		return 16
	case Increment:
		return 17
	case Touch:
		return 12
	}
	return 8
}

// Size returns the size of the request in bytes.
func (k *Keyed) Size(typ uint8) int { return head(typ) + len(k.Key) }

// Append appends the request. The error is mica.ErrKey.
func (k *Keyed) Append(b []byte, typ uint8) ([]byte, error) {
	if err := checkKey(len(k.Key)); err != nil {
		return b, err
	}
	b = le.AppendUint64(b, k.Hash)
	switch typ {
	case Delete:
		b = le.AppendUint64(b, k.Version)
	case Increment:
		b = append(le.AppendUint64(b, k.Delta), flag(k.Down))
	case Touch:
		b = le.AppendUint32(b, k.Life)
	}
	return append(b, k.Key...), nil
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func checkKey(n int) error {
	if n < mica.MinKey || n > mica.MaxKey {
		return mica.ErrKey
	}
	return nil
}

// ParseKeyed reads a request of type Get, Delete, Increment or Touch; the key is part of b. Errors:
// ErrRequest, mica.ErrKey.
func ParseKeyed(b []byte, typ uint8) (k Keyed, err error) {
	n := head(typ)
	if len(b) < n {
		return k, fmt.Errorf("%w: type %d with %d bytes", ErrRequest, typ, len(b))
	}
	k.Hash, k.Key = le.Uint64(b), b[n:]
	switch typ {
	case Delete:
		k.Version = le.Uint64(b[8:])
	case Increment:
		k.Delta, k.Down = le.Uint64(b[8:]), b[16] == 1
		if b[16] > 1 {
			return k, fmt.Errorf("%w: direction %d", ErrRequest, b[16])
		}
	case Touch:
		k.Life = le.Uint32(b[8:])
	}
	return k, checkKey(len(k.Key))
}

// Item is a request of type Write.
type Item struct {
	Hash    uint64
	Key     []byte
	Value   []byte
	Flags   uint32
	Life    uint32 // seconds; 0: for ever
	If      mica.Condition
	Version uint64 // for mica.IfVersion
}

const writeHead = 26

// Size returns the size of the request in bytes.
func (w *Item) Size() int { return writeHead + len(w.Key) + len(w.Value) }

// Append appends the request. Errors: mica.ErrKey, mica.ErrValue.
func (w *Item) Append(b []byte) ([]byte, error) {
	if err := checkKey(len(w.Key)); err != nil {
		return b, err
	}
	if len(w.Value) > mica.MaxValue {
		return b, mica.ErrValue
	}
	b = le.AppendUint64(le.AppendUint64(b, w.Hash), w.Version)
	b = le.AppendUint32(le.AppendUint32(b, w.Life), w.Flags)
	b = append(b, byte(w.If), byte(len(w.Key)))
	return append(append(b, w.Key...), w.Value...), nil
}

// ParseWrite reads a request of type Write; key and value are parts of b. Errors: ErrRequest,
// mica.ErrKey, mica.ErrValue.
func ParseWrite(b []byte) (w Item, err error) {
	if len(b) < writeHead || len(b) < writeHead+int(b[25]) || b[24] > byte(mica.IfVersion) {
		return w, fmt.Errorf("%w: a write of %d bytes", ErrRequest, len(b))
	}
	w = Item{Hash: le.Uint64(b), Version: le.Uint64(b[8:]), Life: le.Uint32(b[16:]),
		Flags: le.Uint32(b[20:]), If: mica.Condition(b[24])}
	end := writeHead + int(b[25])
	w.Key, w.Value = b[writeHead:end], b[end:]
	if len(w.Value) > mica.MaxValue {
		return w, mica.ErrValue
	}
	return w, checkKey(len(w.Key))
}

// KeyOf returns the key of a request of a type with one key, nil if it is malformed.
func KeyOf(b []byte, typ uint8) []byte {
	n, end := head(typ), len(b)
	if typ == Write && end >= writeHead {
		n, end = writeHead, writeHead+int(b[25])
	}
	if end < n || end > len(b) {
		return nil
	}
	return b[n:end]
}

// AppendKey appends an entry of a request of type MultiGet. The error is mica.ErrKey.
func AppendKey(b []byte, hash uint64, key []byte) ([]byte, error) {
	if err := checkKey(len(key)); err != nil {
		return b, err
	}
	b = append(le.AppendUint64(b, hash), byte(len(key)))
	return append(b, key...), nil
}

// KeySize returns the size of an entry of a request of type MultiGet in bytes.
func KeySize(key []byte) int { return 9 + len(key) }

// NextKey takes an entry off a request of type MultiGet that this process has made.
func NextKey(b []byte) (key, rest []byte) {
	end := 9 + int(b[8])
	return b[9:end], b[end:]
}

// ParseKeys reads a request of type MultiGet, and returns how many keys there are, which are parts
// of b, and their hashes. Errors: ErrRequest, mica.ErrKey.
func ParseKeys(
	b []byte, keys *[MaxMulti][]byte, hashes *[MaxMulti]uint64,
) (n int, err error) {
	for len(b) > 0 {
		if n == MaxMulti || len(b) < 9 || len(b) < 9+int(b[8]) {
			return 0, fmt.Errorf("%w: %d bytes after key %d of a multi-get", ErrRequest, len(b), n)
		}
		end := 9 + int(b[8])
		if err := checkKey(end - 9); err != nil {
			return 0, err
		}
		keys[n], hashes[n] = b[9:end], le.Uint64(b)
		b = b[end:]
		n++
	}
	return n, nil
}
