package kv

import (
	"encoding/binary"
	"hash/crc32"
)

// Loader makes a store of a snapshot, piece by piece.
type Loader struct {
	store    *Store
	body     []byte // without its checksum
	rest     []byte // that is not read yet
	sum      uint32 // of what is checked of body
	checked  int
	sessions uint64 // to come
	keys     uint64 // to come
	total    uint64 // keys
	want     uint32
	form     uint32
	size     int // sessions of the whole snapshot
}

// NewLoader begins to read a snapshot; b must not change. The error is ErrSnapshot.
func NewLoader(b []byte) (*Loader, error) {
	if len(b) < snapHeader+4 || binary.LittleEndian.Uint32(b) != snapMagic {
		return nil, ErrSnapshot
	}
	l := &Loader{store: NewStore(), body: b[:len(b)-4], form: binary.LittleEndian.Uint32(b[4:])}
	l.want = binary.LittleEndian.Uint32(b[len(l.body):])
	l.sessions, l.keys = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	l.rest = l.body[snapHeader:]
	if !l.head() {
		return nil, ErrSnapshot
	}
	if l.sessions > MaxSessions || l.keys > uint64(len(l.rest)/2) {
		return nil, ErrSnapshot
	}
	l.total, l.size = l.keys, int(l.sessions)
	return l, nil
}

// head reads what a form has before the sessions.
func (l *Loader) head() bool {
	switch {
	case l.form == 0 || l.form > snapRaised:
		return false
	case l.form < snapTimes:
		return true
	case len(l.rest) < 8:
		return false
	}
	l.store.sessions.now, l.rest = binary.LittleEndian.Uint64(l.rest), l.rest[8:]
	if l.form < snapRaised {
		return true
	}
	if len(l.rest) < 8 {
		return false
	}
	v := binary.LittleEndian.Uint64(l.rest)
	l.store.version, l.rest = uint8(v), l.rest[8:]
	return v > 0 && v <= Format
}

// checkedAtOnce is how many bytes are checked in the time of one key.
const checkedAtOnce = 512

// Step reads about n keys. It returns the store once all is read, else nil. The error
// is ErrSnapshot.
func (l *Loader) Step(n int) (*Store, error) {
	if n = l.check(n); n <= 0 {
		return nil, nil
	}
	if l.checked == len(l.body) && l.sum != l.want {
		return nil, ErrSnapshot
	}
	var ok bool
	for ; l.sessions > 0 && n > 0; l.sessions, n = l.sessions-1, n-1 {
		if l.rest, ok = l.session(l.rest); !ok {
			return nil, ErrSnapshot
		}
	}
	for ; l.keys > 0 && n > 0; l.keys, n = l.keys-1, n-1 {
		if l.rest, ok = l.key(l.rest); !ok {
			return nil, ErrSnapshot
		}
	}
	if l.sessions+l.keys > 0 {
		return nil, nil
	}
	if len(l.rest) != 0 || l.store.keys != int(l.total) || l.store.Sessions() != l.size {
		return nil, ErrSnapshot
	}
	return l.store, nil
}

// check goes on with the checksum and returns what is left of n then.
func (l *Loader) check(n int) int {
	for l.checked < len(l.body) && n > 0 {
		size := min(len(l.body)-l.checked, 64*checkedAtOnce)
		l.sum = crc32.Update(l.sum, castagnoli, l.body[l.checked:l.checked+size])
		l.checked += size
		n -= (size + checkedAtOnce - 1) / checkedAtOnce
	}
	return n
}

// Load returns a store as it was saved. The error is ErrSnapshot.
func Load(b []byte) (*Store, error) {
	l, err := NewLoader(b)
	for err == nil {
		var s *Store
		if s, err = l.Step(1 << 30); s != nil {
			return s, nil
		}
	}
	return nil, err
}

func (l *Loader) session(b []byte) (rest []byte, ok bool) {
	head := 25
	if l.form < snapTimes {
		head = 17
	}
	if len(b) < head || len(b) < head+int(b[head-1]) {
		return nil, false
	}
	n := &session{id: binary.LittleEndian.Uint64(b), seq: binary.LittleEndian.Uint64(b[8:])}
	if l.form >= snapTimes {
		n.last = binary.LittleEndian.Uint64(b[16:])
	}
	size := int(b[head-1])
	if n.seq > 0 {
		a, err := ParseAnswer(b[head : head+size])
		if err != nil || n.last > l.store.sessions.now {
			return nil, false
		}
		n.answer = a
	} else if size != 0 || n.last != 0 {
		return nil, false
	}
	if l.store.sessions.byID[n.id] != nil {
		return nil, false
	}
	l.store.sessions.add(n)
	return b[head+size:], true
}

func (l *Loader) key(b []byte) (rest []byte, ok bool) {
	s := l.store
	if len(b) < 2 || len(b) < 2+int(b[0])+int(b[1]) {
		return nil, false
	}
	kn, vn := int(b[0]), int(b[1])
	k, err := MakeKey(b[2 : 2+kn])
	v, err2 := MakeValue(b[2+kn : 2+kn+vn])
	if err != nil || err2 != nil {
		return nil, false
	}
	h := s.seed.hash(&k)
	t := &s.shards[h%numShards]
	if len(t.slots) == 0 {
		t.reserve(&s.seed, int(l.total/numShards*9/8))
	}
	it, twice := t.find(&k, h)
	if twice {
		return nil, false
	}
	t.put(&s.seed, &k, h, it, false, &v)
	s.keys++
	return b[2+kn+vn:], true
}
