package durable

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"iter"
	"sync"

	"github.com/userspace-rpc/erpc/index"
)

// Op is a kind of write.
type Op uint8

// The kinds of writes. They are the first bytes of records, but for PutIfAbsent.
const (
	Put Op = 1 + iota
	Delete
	PutIfAbsent
)

// MaxValue is the size of the largest value in bytes.
const MaxValue = 1 << 24

// ErrValueTooLarge means that a value to be stored has more than MaxValue bytes. Nothing was
// stored.
var ErrValueTooLarge = errors.New("durable: value larger than 16 MiB")

// tree is the map of a Store.
type tree[V any] interface {
	Put(key []byte, value V) (old V, replaced bool, err error)
	PutIfAbsent(key []byte, value V) (there V, present bool, err error)
	Delete(key []byte) (old V, deleted bool)
	Ascend(from []byte) iter.Seq2[[]byte, V]
	Len() int
}

// values is how values are written.
type values[V any] struct {
	kind   uint32
	size   func(V) int
	append func([]byte, V) []byte
	take   func([]byte) (v V, rest []byte, ok bool)
}

// Store takes the writes of a map and keeps them. Any number of goroutines may use it. It belongs
// to the one who opened it, and the map is the application's: others read it, and write only by the
// Store.
type Store[V uint64 | []byte] struct {
	*Log
	m      tree[V]
	values values[V]
	seed   maphash.Seed
	order  [64]stripe
}

// stripe is locked by the writes of some keys.
type stripe struct {
	sync.Mutex
	_ [56]byte
}

// Open opens the folder of a Map, which it fills, or begins one with what the map has. Other users
// than this one cannot read what it makes. Errors: ErrDamaged, ErrForeign, ErrVersion, ErrInUse,
// those of the system.
func Open(path string, m *index.Map, cfg Config) (*Store[uint64], error) {
	return openFolder(path, numbers(m), cfg)
}

func numbers(m *index.Map) *Store[uint64] {
	return &Store[uint64]{m: m, seed: maphash.MakeSeed(), values: values[uint64]{
		kind: 1, append: binary.LittleEndian.AppendUint64,
		size: func(uint64) int { return 8 },
		take: func(b []byte) (v uint64, rest []byte, ok bool) {
			if len(b) < 8 {
				return 0, nil, false
			}
			return binary.LittleEndian.Uint64(b), b[8:], true
		}}}
}

// OpenBytes is Open for a Bytes.
func OpenBytes(path string, m *index.Bytes, cfg Config) (*Store[[]byte], error) {
	return openFolder(path, blobs(m), cfg)
}

func blobs(m *index.Bytes) *Store[[]byte] {
	return &Store[[]byte]{m: m, seed: maphash.MakeSeed(), values: values[[]byte]{kind: 2,
		size: func(v []byte) int { return len(v) },
		append: func(b, v []byte) []byte {
			return append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		},
		take: func(b []byte) (v, rest []byte, ok bool) {
			if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
				return nil, nil, false
			}
			end := 4 + int(binary.LittleEndian.Uint32(b))
			return b[4:end], b[end:], true
		}}}
}

// Put is that of the map, and returns when the Policy says so. Errors: index.ErrKeyTooLong,
// ErrValueTooLarge; ErrFailed, and then the map may have the value.
func (s *Store[V]) Put(key []byte, value V) (old V, replaced bool, err error) {
	return s.do(Put, key, value)
}

// PutIfAbsent is that of the map, and returns when the Policy says so. Errors: those of Put.
func (s *Store[V]) PutIfAbsent(key []byte, value V) (there V, present bool, err error) {
	return s.do(PutIfAbsent, key, value)
}

// Delete is that of the map, and returns when the Policy says so. The error is ErrFailed; then the
// key may be gone.
func (s *Store[V]) Delete(key []byte) (old V, deleted bool, err error) {
	var none V
	return s.do(Delete, key, none)
}

func (s *Store[V]) do(op Op, key []byte, value V) (old V, there bool, err error) {
	var at Mark
	for err = errWait; err == errWait; {
		for s.stalled.Load() {
			ready := make(chan struct{})
			s.WhenReady(func() { close(ready) })
			<-ready
		}
		old, there, at, err = s.try(op, key, value, true)
	}
	if err == nil && s.cfg.Sync == Always {
		done := make(chan error, 1)
		s.WhenKept(at, func(err error) { done <- err })
		err = <-done
	}
	return old, there, err
}

// Try is for servers whose threads must not wait. It does a write at once, whether the Store is
// Ready or not, and returns the value of before. The write, and all that the answer depends on, is
// kept when WhenKept says so of at. Errors: those of Put, ErrBehind.
func (s *Store[V]) Try(op Op, key []byte, value V) (old V, there bool, at Mark, err error) {
	return s.try(op, key, value, false)
}

// errWait means that a write has to wait: nothing has changed.
var errWait = errors.New("durable: the disk does not keep up")

// try does a write. If it waits it is not done while the Store is not Ready: the error is errWait.
// Many writes of a stripe can have found it Ready, one after the other.
func (s *Store[V]) try(
	op Op, key []byte, value V, waits bool,
) (old V, there bool, at Mark, err error) {
	if s.values.size(value) > MaxValue {
		return old, false, 0, ErrValueTooLarge
	}
	if err := s.Err(); err != nil {
		return old, false, 0, err
	}
	lock := &s.order[maphash.Bytes(s.seed, key)%uint64(len(s.order))]
	lock.Lock()
	defer lock.Unlock()
	if waits && s.stalled.Load() {
		return old, false, 0, errWait
	}
	if s.behind.Load() {
		return old, false, 0, ErrBehind
	}
	switch op {
	case Put:
		old, there, err = s.m.Put(key, value)
	case PutIfAbsent:
		old, there, err = s.m.PutIfAbsent(key, value)
	case Delete:
		old, there = s.m.Delete(key)
	}
	if err != nil {
		return old, there, 0, err
	}
	l := s.Log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case op == Put, op == PutIfAbsent && !there:
		l.buf = s.values.append(appendKey(l.buf, Put, key), value)
		l.appended()
	case op == Delete && there:
		l.buf = appendKey(l.buf, Delete, key)
		l.appended()
	}
	return old, there, l.end, l.err
}

// appendKey appends the beginning of a record.
func appendKey(b []byte, op Op, key []byte) []byte {
	return append(append(b, byte(op), byte(len(key))), key...)
}

// replay does what records say. The error is ErrDamaged.
func (s *Store[V]) replay(b []byte) error {
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return errRecord
		}
		op, key := Op(b[0]), b[2:2+int(b[1])]
		b = b[2+len(key):]
		switch op {
		case Put:
			value, rest, ok := s.values.take(b)
			if !ok {
				return errRecord
			}
			if _, _, err := s.m.Put(key, value); err != nil {
				return err
			}
			b = rest
		case Delete:
			s.m.Delete(key)
		default:
			return errRecord
		}
	}
	return nil
}
