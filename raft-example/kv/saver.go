package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// ErrEnded means that a Saver was ended before all was read.
var ErrEnded = errors.New("kv: the snapshot was ended")

// Saver gives out a snapshot of a store, as of when it began, while the store goes on changing. It
// holds the sessions, the bytes of one shard, and of shards that are not out yet the items that
// have changed, as they were.
type Saver struct {
	store *Store
	size  uint64
	out   []byte // not given out yet
	buf   []byte // of which out is a part
	sum   uint32
	next  int              // shards below are out
	was   [numShards]shard // what changed of the others; a value of noValue: there was none
}

// noValue is the size of a value that is none.
const noValue = 0xff

// Save begins a snapshot of the store as it is now; its bytes follow those of head. There is one at
// a time: an earlier one ends.
func (s *Store) Save(head []byte) *Saver {
	if s.saver != nil {
		s.saver.End()
	}
	v := &Saver{store: s, buf: append(make([]byte, 0, len(head)+snapHeader+16+s.Sessions()*128),
		head...)}
	v.header()
	v.size = uint64(len(v.buf)) + s.bytes + 4
	v.sum = crc32.Checksum(v.buf[len(head):], castagnoli)
	v.out = v.buf
	s.saver = v
	return v
}

// header appends all that precedes the keys.
func (v *Saver) header() {
	s := v.store
	form := uint32(snapTimes)
	if s.version > 0 {
		form = snapRaised
	}
	b := binary.LittleEndian.AppendUint32(v.buf, snapMagic)
	b = binary.LittleEndian.AppendUint32(b, form)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Sessions()))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.keys))
	b = binary.LittleEndian.AppendUint64(b, s.sessions.now)
	if form == snapRaised {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.version))
	}
	s.sessions.each(func(n *session) {
		b = binary.LittleEndian.AppendUint64(b, n.id)
		b = binary.LittleEndian.AppendUint64(b, n.seq)
		b = binary.LittleEndian.AppendUint64(b, n.last)
		size := 0
		if n.seq > 0 {
			size = n.answer.Size()
		}
		b = append(b, byte(size))
		if size > 0 {
			b = n.answer.Append(b)
		}
	})
	v.buf = b
}

// Over reports whether all is read, or the snapshot ended.
func (v *Saver) Over() bool { return v.store == nil }

// Size returns the bytes of head and the snapshot.
func (v *Saver) Size() uint64 { return v.size }

// Read implements io.Reader. It takes the time of copying the bytes, and of one shard more. It
// fills p but at the end. Errors: io.EOF at the end, ErrEnded.
func (v *Saver) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(v.out) == 0 {
			if err = v.fill(); err != nil {
				break
			}
		}
		c := copy(p[n:], v.out)
		v.out, n = v.out[c:], n+c
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// fill makes the bytes of the next shard, or those behind the last one.
func (v *Saver) fill() error {
	switch {
	case v.store == nil && v.next > numShards:
		return io.EOF
	case v.store == nil:
		return ErrEnded
	case v.next == numShards:
		v.out = binary.LittleEndian.AppendUint32(v.buf[:0], v.sum)
		v.next++
		v.End()
		return nil
	}
	v.buf = v.shard(v.buf[:0], &v.store.shards[v.next], &v.was[v.next])
	v.sum = crc32.Update(v.sum, castagnoli, v.buf)
	v.was[v.next] = shard{}
	v.out = v.buf
	v.next++
	return nil
}

// shard appends the items of a shard, with what is in was in place of what changed.
func (v *Saver) shard(b []byte, t, was *shard) []byte {
	add := func(k *Key, val *Value) {
		b = append(b, k.n, val.n)
		b = append(b, k.Bytes()...)
		b = append(b, val.Bytes()...)
	}
	if was.used == 0 {
		t.each(add)
		return b
	}
	t.each(func(k *Key, val *Value) {
		if _, changed := was.find(k, v.store.seed.hash(k)); !changed {
			add(k, val)
		}
	})
	was.each(func(k *Key, val *Value) {
		if val.n != noValue {
			add(k, val)
		}
	})
	return b
}

// before notes an item of a shard that is about to change, or to come where there is none, unless
// it is noted or out. One that came meanwhile and goes need not be noted any more: so no more is
// noted than there were keys, and are.
func (v *Saver) before(i int, k *Key, h uint64, it *item, found, goes bool) {
	if i < v.next {
		return
	}
	t := &v.was[i]
	at, noted := t.find(k, h)
	switch {
	case noted && goes && at.val.n == noValue:
		t.remove(&v.store.seed, at)
	case noted:
	case found:
		t.put(&v.store.seed, k, h, at, false, &it.val)
	default:
		t.put(&v.store.seed, k, h, at, false, &Value{n: noValue})
	}
}

// End lets go of the store: nothing is noted any more.
func (v *Saver) End() {
	if v.store != nil && v.store.saver == v {
		v.store.saver = nil
	}
	v.store = nil
	clear(v.was[:])
}
