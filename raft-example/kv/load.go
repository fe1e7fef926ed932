package kv

import (
	"encoding/binary"
	"hash/crc32"
)

// Loader makes a store of the bytes of a snapshot as they come, and holds no others.
type Loader struct {
	store    *Store
	size     uint64 // of the snapshot
	got      uint64
	part     []byte // of an item that has not come whole
	sum      uint32
	read     func(b []byte) int // the next item
	sessions uint64             // to come
	keys     uint64             // to come
	form     uint32
	err      error
}

// longestItem is more than an item of a snapshot has.
const longestItem = 512

// What an item's reader returns in place of its size.
const (
	short = 0  // it has not come whole
	bad   = -1 // it is none
)

// NewLoader begins to read a snapshot of size bytes.
func NewLoader(size uint64) *Loader {
	l := &Loader{store: NewStore(), size: size}
	l.read = l.head
	return l
}

// Write implements io.Writer. The error is ErrSnapshot.
func (l *Loader) Write(b []byte) (int, error) {
	n := len(b)
	if l.err != nil || uint64(n) > l.size-l.got {
		return 0, l.fail()
	}
	if sums := l.size - min(4, l.size); l.got < sums {
		l.sum = crc32.Update(l.sum, castagnoli, b[:min(uint64(n), sums-l.got)])
	}
	l.got += uint64(n)
	for len(b) > 0 {
		from, had := b, len(l.part)
		if had > 0 { // in front of b is the rest of an item
			l.part = append(l.part, b[:min(len(b), longestItem)]...)
			from = l.part
		}
		switch used := l.read(from); used {
		case bad:
			return 0, l.fail()
		case short:
			if had == 0 {
				l.part = append(l.part, b...)
			}
			return n, nil
		default:
			b, l.part = b[used-had:], l.part[:0]
		}
	}
	return n, nil
}

func (l *Loader) fail() error {
	l.err = ErrSnapshot
	l.store = nil
	return l.err
}

// Store returns the store, once all is written. The error is ErrSnapshot.
func (l *Loader) Store() (*Store, error) {
	if l.err != nil || l.got < l.size || l.read != nil {
		return nil, ErrSnapshot
	}
	return l.store, nil
}

// Load returns a store as it was saved. The error is ErrSnapshot.
func Load(b []byte) (*Store, error) {
	l := NewLoader(uint64(len(b)))
	if _, err := l.Write(b); err != nil {
		return nil, err
	}
	return l.Store()
}

// head reads what precedes the sessions.
func (l *Loader) head(b []byte) (used int) {
	if len(b) < 8 {
		return short
	}
	used = snapHeader
	switch l.form = binary.LittleEndian.Uint32(b[4:]); {
	case binary.LittleEndian.Uint32(b) != snapMagic || l.form == 0 || l.form > snapRaised:
		return bad
	case l.form == snapRaised:
		used += 16
	case l.form == snapTimes:
		used += 8
	}
	if len(b) < used {
		return short
	}
	l.sessions, l.keys = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	if l.form >= snapTimes {
		l.store.sessions.now = binary.LittleEndian.Uint64(b[snapHeader:])
	}
	if l.form == snapRaised {
		v := binary.LittleEndian.Uint64(b[snapHeader+8:])
		if v == 0 || v > Format {
			return bad
		}
		l.store.version = uint8(v)
	}
	if rest := l.size - min(l.size, uint64(used+4)); l.sessions > MaxSessions || l.keys > rest/2 {
		return bad
	}
	l.read = l.item
	return used
}

// item reads a session, a key or the checksum, whatever is next.
func (l *Loader) item(b []byte) (used int) {
	switch {
	case l.sessions > 0:
		if used = l.session(b); used > 0 {
			l.sessions--
		}
	case l.keys > 0:
		if used = l.key(b); used > 0 {
			l.keys--
		}
	case l.size-l.got+uint64(len(b)) != 4: // more follows than the checksum
		return bad
	case len(b) < 4:
		return short
	case binary.LittleEndian.Uint32(b) != l.sum:
		return bad
	default:
		used, l.read = 4, nil
	}
	return used
}

func (l *Loader) session(b []byte) (used int) {
	head := 25
	if l.form < snapTimes {
		head = 17
	}
	if len(b) < head || len(b) < head+int(b[head-1]) {
		return short
	}
	n := &session{id: binary.LittleEndian.Uint64(b), seq: binary.LittleEndian.Uint64(b[8:])}
	if l.form >= snapTimes {
		n.last = binary.LittleEndian.Uint64(b[16:])
	}
	size := int(b[head-1])
	if n.seq > 0 {
		a, err := ParseAnswer(b[head : head+size])
		if err != nil || n.last > l.store.sessions.now {
			return bad
		}
		n.answer = a
	} else if size != 0 || n.last != 0 {
		return bad
	}
	if l.store.sessions.byID[n.id] != nil {
		return bad
	}
	l.store.sessions.add(n)
	return head + size
}

// key puts a key into the store. Tables double, so that memory grows with what has come and not
// with what is announced, and so that many do not grow at the same time.
func (l *Loader) key(b []byte) (used int) {
	s := l.store
	if len(b) < 2 || len(b) < 2+int(b[0])+int(b[1]) {
		return short
	}
	kn, vn := int(b[0]), int(b[1])
	k, err := MakeKey(b[2 : 2+kn])
	v, err2 := MakeValue(b[2+kn : 2+kn+vn])
	if err != nil || err2 != nil {
		return bad
	}
	h := s.seed.hash(&k)
	t := &s.shards[h%numShards]
	it, twice := t.find(&k, h)
	if twice {
		return bad
	}
	t.put(&s.seed, &k, h, it, false, &v)
	s.keys++
	s.bytes += itemSize(&k, &v)
	return 2 + kn + vn
}
