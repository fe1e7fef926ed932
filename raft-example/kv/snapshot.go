package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrSnapshot means that bytes are not a snapshot.
var ErrSnapshot = errors.New("kv: damaged snapshot")

// A snapshot is
//
//	0 magic u32 · 4 version u32 · 8 sessions u64 · 16 keys u64
//	sessions, the oldest first: id u64 · seq u64 · answer size u8 · answer
//	keys: key size u8 · value size u8 · key · value
//	CRC-32C of all that u32
const (
	snapMagic   = 0x53564b45 // "EKVS"
	snapVersion = 1
	snapHeader  = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Saver writes a snapshot of a store while the store goes on changing: it copies
// shard after shard, and a shard that is about to change before that.
type Saver struct {
	store *Store
	buf   []byte
	done  [numShards]bool
	next  int // shards below are done
}

// Save begins a snapshot of the store as it is now. There is one at a time: an earlier one
// that is not finished ends. Memory: the snapshot's size.
func (s *Store) Save() *Saver {
	v := &Saver{store: s, buf: make([]byte, 0, snapHeader+len(s.sessions)*128+s.keys*(2+MaxKey+MaxValue)+4)}
	v.buf = binary.LittleEndian.AppendUint32(v.buf, snapMagic)
	v.buf = binary.LittleEndian.AppendUint32(v.buf, snapVersion)
	v.buf = binary.LittleEndian.AppendUint64(v.buf, uint64(len(s.sessions)))
	v.buf = binary.LittleEndian.AppendUint64(v.buf, uint64(s.keys))
	for n := s.lru.next; n != &s.lru; n = n.next {
		v.buf = binary.LittleEndian.AppendUint64(v.buf, n.id)
		v.buf = binary.LittleEndian.AppendUint64(v.buf, n.seq)
		size := 0
		if n.seq > 0 {
			size = n.answer.Size()
		}
		v.buf = append(v.buf, byte(size))
		if size > 0 {
			v.buf = n.answer.Append(v.buf)
		}
	}
	s.saver = v
	return v
}

// Step copies up to n shards. It returns the snapshot once all are copied, else nil.
func (v *Saver) Step(n int) []byte {
	for ; v.next < numShards && n > 0; v.next++ {
		if !v.done[v.next] {
			v.before(v.next)
			n--
		}
	}
	if v.next < numShards {
		return nil
	}
	if v.store.saver == v {
		v.store.saver = nil
	}
	return binary.LittleEndian.AppendUint32(v.buf, crc32.Checksum(v.buf, castagnoli))
}

// before copies a shard that is about to change, unless it is copied already.
func (v *Saver) before(i int) {
	if v.done[i] {
		return
	}
	v.done[i] = true
	for k, val := range v.store.shards[i] {
		v.buf = append(v.buf, k.n, val.n)
		v.buf = append(v.buf, k.Bytes()...)
		v.buf = append(v.buf, val.Bytes()...)
	}
}

// Load returns a store as it was saved. The error is ErrSnapshot.
func Load(b []byte) (*Store, error) {
	if len(b) < snapHeader+4 || binary.LittleEndian.Uint32(b) != snapMagic || binary.LittleEndian.Uint32(b[4:]) != snapVersion {
		return nil, ErrSnapshot
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, ErrSnapshot
	}
	sessions, keys := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	s, rest := NewStore(), body[snapHeader:]
	if sessions > MaxSessions || keys > uint64(len(rest)/2) {
		return nil, ErrSnapshot
	}
	var ok bool
	for range sessions {
		if rest, ok = s.loadSession(rest); !ok {
			return nil, ErrSnapshot
		}
	}
	s.Grow(int(keys))
	for range keys {
		if rest, ok = s.loadKey(rest); !ok {
			return nil, ErrSnapshot
		}
	}
	if len(rest) != 0 || s.keys != int(keys) || len(s.sessions) != int(sessions) {
		return nil, ErrSnapshot
	}
	return s, nil
}

func (s *Store) loadSession(b []byte) (rest []byte, ok bool) {
	if len(b) < 17 || len(b) < 17+int(b[16]) {
		return nil, false
	}
	n := &session{id: binary.LittleEndian.Uint64(b), seq: binary.LittleEndian.Uint64(b[8:])}
	size := int(b[16])
	if n.seq > 0 {
		a, err := ParseAnswer(b[17 : 17+size])
		if err != nil {
			return nil, false
		}
		n.answer = a
	} else if size != 0 {
		return nil, false
	}
	s.sessions[n.id] = n
	s.lru.append(n)
	return b[17+size:], true
}

func (s *Store) loadKey(b []byte) (rest []byte, ok bool) {
	if len(b) < 2 || len(b) < 2+int(b[0])+int(b[1]) {
		return nil, false
	}
	kn, vn := int(b[0]), int(b[1])
	k, err := MakeKey(b[2 : 2+kn])
	v, err2 := MakeValue(b[2+kn : 2+kn+vn])
	if err != nil || err2 != nil {
		return nil, false
	}
	m := s.shards[k.hash()%numShards]
	if _, twice := m[k]; twice {
		return nil, false
	}
	m[k] = v
	s.keys++
	return b[2+kn+vn:], true
}

// Digest returns a text that two stores with the same keys, values and sessions share.
func (s *Store) Digest() string {
	var keys, sessions uint64
	for i := range s.shards {
		for k, v := range s.shards[i] {
			h := crc32.Update(crc32.Checksum(k.Bytes(), castagnoli), castagnoli, v.Bytes())
			keys += uint64(h) * 0x9E3779B97F4A7C15 // in any order
		}
	}
	for n := s.lru.next; n != &s.lru; n = n.next {
		sessions = (sessions ^ n.id ^ n.seq<<32) * 0x9E3779B97F4A7C15 // in this order
	}
	return fmt.Sprintf("%d keys %016x, %d sessions %016x", s.keys, keys, len(s.sessions), sessions)
}
