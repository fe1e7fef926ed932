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
//	0 magic u32 · 4 form u32 · 8 sessions u64 · 16 keys u64 · 24 the log's time in ms u64
//	with form 3, the cluster's version u64
//	sessions, without a write, then the others, the oldest first:
//	    id u64 · seq u64 · time of the last write u64 · answer size u8 · answer
//	keys: key size u8 · value size u8 · key · value
//	CRC-32C of all that u32
//
// Form 2 is that of version 0, which form 3 never says.
const (
	snapMagic  = 0x53564b45 // "EKVS"
	snapTimes  = 2          // a form; 1 had no times
	snapRaised = 3          // a form
	snapHeader = 24         // without the time and what follows it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Saver writes a snapshot of a store while the store goes on changing: it copies
// shard after shard, and a shard that is about to change before that.
type Saver struct {
	store *Store
	head  int // bytes before the snapshot
	buf   []byte
	done  [numShards]bool
	next  int // shards below are done
	sum   uint32
	upTo  int // buf[head:upTo] is in sum
}

// Save begins a snapshot of the store as it is now; its bytes will follow those of head. There
// is one at a time: an earlier one that is not finished ends. Memory: the snapshot's size.
func (s *Store) Save(head []byte) *Saver {
	size := len(head) + snapHeader + 16 + s.Sessions()*128 + s.keys*(2+MaxKey+MaxValue) + 4
	v := &Saver{store: s, head: len(head), buf: append(make([]byte, 0, size), head...),
		upTo: len(head)}
	v.buf = binary.LittleEndian.AppendUint32(v.buf, snapMagic)
	form := uint32(snapTimes)
	if s.version > 0 {
		form = snapRaised
	}
	v.buf = binary.LittleEndian.AppendUint32(v.buf, form)
	v.buf = binary.LittleEndian.AppendUint64(v.buf, uint64(s.Sessions()))
	v.buf = binary.LittleEndian.AppendUint64(v.buf, uint64(s.keys))
	v.buf = binary.LittleEndian.AppendUint64(v.buf, s.sessions.now)
	if form == snapRaised {
		v.buf = binary.LittleEndian.AppendUint64(v.buf, uint64(s.version))
	}
	s.sessions.each(func(n *session) {
		v.buf = binary.LittleEndian.AppendUint64(v.buf, n.id)
		v.buf = binary.LittleEndian.AppendUint64(v.buf, n.seq)
		v.buf = binary.LittleEndian.AppendUint64(v.buf, n.last)
		size := 0
		if n.seq > 0 {
			size = n.answer.Size()
		}
		v.buf = append(v.buf, byte(size))
		if size > 0 {
			v.buf = n.answer.Append(v.buf)
		}
	})
	s.saver = v
	return v
}

// Step copies shards until there are at least n keys more. It returns head and the snapshot
// once all are copied, else nil.
func (v *Saver) Step(n int) []byte {
	for ; v.next < numShards && n > 0; v.next++ {
		if !v.done[v.next] {
			v.before(v.next)
			n -= 1 + v.store.shards[v.next].used
		}
	}
	v.checksum()
	if v.next < numShards {
		return nil
	}
	if v.store.saver == v {
		v.store.saver = nil
	}
	return binary.LittleEndian.AppendUint32(v.buf, v.sum)
}

// checksum takes what was copied since.
func (v *Saver) checksum() {
	v.sum = crc32.Update(v.sum, castagnoli, v.buf[v.upTo:])
	v.upTo = len(v.buf)
}

// before copies a shard that is about to change, unless it is copied already.
func (v *Saver) before(i int) {
	if v.done[i] {
		return
	}
	v.done[i] = true
	v.store.shards[i].each(func(k *Key, val *Value) {
		v.buf = append(v.buf, k.n, val.n)
		v.buf = append(v.buf, k.Bytes()...)
		v.buf = append(v.buf, val.Bytes()...)
	})
}

// Digest returns a text that two stores with the same version, keys, values and sessions share.
func (s *Store) Digest() string {
	var keys, sessions uint64
	for i := range s.shards {
		s.shards[i].each(func(k *Key, v *Value) {
			h := crc32.Update(crc32.Checksum(k.Bytes(), castagnoli), castagnoli, v.Bytes())
			keys += uint64(h) * 0x9E3779B97F4A7C15 // in any order
		})
	}
	s.sessions.each(func(n *session) { // in this order
		sessions = (sessions ^ n.id ^ n.seq<<32 ^ n.last<<16) * 0x9E3779B97F4A7C15
	})
	return fmt.Sprintf("version %d, %d keys %016x, %d sessions %016x", s.version, s.keys, keys,
		s.Sessions(), sessions)
}
