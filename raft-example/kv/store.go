package kv

import "github.com/userspace-rpc/erpc/gopt"

// numShards is a power of two. A million keys are about a thousand in each.
const numShards = 1024

// slotLines is how many cache lines a slot has, most often.
const slotLines = 2

// Store is the state machine. It belongs to one goroutine.
type Store struct {
	shards   [numShards]shard
	seed     seed
	keys     int
	bytes    uint64 // of them in a snapshot
	version  uint8
	sessions *sessions
	saver    *Saver // the snapshot that is being written, or nil
	brief    Answer // Apply's, where no session keeps it
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{seed: newSeed(), sessions: newSessions()} }

// Grow makes room for n keys, so that writes do not wait for it.
func (s *Store) Grow(n int) {
	for i := range s.shards {
		s.shards[i].reserve(&s.seed, n/numShards*5/4)
	}
}

// Len returns the number of keys.
func (s *Store) Len() int { return s.keys }

// Version is the cluster's: the format that everything applied is of, at most. It is 0 until a
// Raise.
func (s *Store) Version() uint8 { return s.version }

// Bytes returns how many bytes the keys and values have in a snapshot.
func (s *Store) Bytes() uint64 { return s.bytes }

// Sessions returns the number of sessions.
func (s *Store) Sessions() int { return len(s.sessions.byID) }

// Get returns the value of a key.
func (s *Store) Get(k Key) (v Value, found bool) {
	if it, found := s.find(&k); found {
		return it.val, true
	}
	return v, false
}

// Touch asks for the slot of a key to be brought into the cache, and does not wait for it.
func (s *Store) Touch(k *Key) {
	h := s.seed.hash(k)
	t := &s.shards[h%numShards]
	at := [1]uint32{uint32(t.home(h))} // of an empty table it is beyond: no harm in a hint
	gopt.PrefetchAt(t.slots, at[:], slotLines)
}

// fewKeys are likely to be in the cache: some 500 KiB of slots.
const fewKeys = 4096

// Ahead is Touch of the key that a log entry with these bytes writes: of a run of entries, before
// the first one is applied, so that their misses overlap (G-Opt, NSDI 2015). It changes nothing,
// whatever the bytes are. With few keys it does nothing.
func (s *Store) Ahead(data []byte) {
	if s.keys < fewKeys || len(data) < cmdHeader {
		return
	}
	b := data[cmdHeader:]
	var k Key
	k.n = uint8(copy(k.b[:], b[:min(int(data[2]), len(b))]))
	s.Touch(&k)
}

func (s *Store) find(k *Key) (it *item, found bool) {
	h := s.seed.hash(k)
	return s.shards[h%numShards].find(k, h)
}

// Apply applies the log entry at index with these bytes, and returns the answer. An answer of
// Malformed or TooLarge means that the entry is none of this program's formats and was not applied:
// see EntryError. The answer is the store's: it may be read until the next call.
func (s *Store) Apply(index uint64, data []byte) *Answer {
	var c Command
	if err := c.parse(data); err != nil {
		s.brief = Fail(err)
		return &s.brief
	}
	switch c.Op {
	case Open:
		idle := SessionIdle
		if s.version >= 1 {
			idle = CrowdedIdle
		}
		if !s.sessions.open(index, idle) {
			return s.only(Full)
		}
		s.only(OK).Number = index
		return &s.brief
	case Clock:
		s.sessions.tick(c.Seq)
		return s.only(OK)
	case Close: // of version 1: see package node
		s.sessions.end(c.Session)
		return s.only(OK)
	case Timing: // package replica takes it
		return s.only(OK)
	case Raise:
		a := s.only(OK)
		a.Found, s.version = s.version >= c.Format, max(s.version, c.Format)
		a.Number = uint64(s.version)
		return a
	case Put, Delete, CAS:
		return s.write(&c)
	}
	return s.only(Malformed)
}

// only returns an answer that has nothing but a status.
func (s *Store) only(status Status) *Answer {
	s.brief = Answer{Status: status}
	return &s.brief
}

// Crowded reports whether there are so many sessions that the log's time counts.
func (s *Store) Crowded() bool { return len(s.sessions.byID) > s.sessions.max/2 }

// write applies a write unless it was applied already.
func (s *Store) write(c *Command) *Answer {
	n := s.sessions.byID[c.Session]
	switch {
	case n == nil:
		return s.only(Expired)
	case c.Seq == n.seq:
		return &n.answer
	case c.Seq < n.seq:
		return s.only(Stale)
	}
	s.change(c, &n.answer)
	s.sessions.wrote(n, c.Seq)
	return &n.answer
}

// change makes the change of a command, and its answer.
func (s *Store) change(c *Command, a *Answer) {
	h := s.seed.hash(&c.Key)
	i := h % numShards
	t := &s.shards[i]
	it, found := t.find(&c.Key, h)
	if a.Value.n > 0 {
		a.Value = Value{}
	}
	a.Status, a.Found, a.Number = OK, false, 0
	switch {
	case c.Op != Put && !found && !c.Absent:
		a.Status = NotFound
		return
	case c.Op == CAS && found && (c.Absent || it.val != c.Old):
		a.Status, a.Found, a.Value = Mismatch, true, it.val
		return
	}
	if s.saver != nil {
		s.saver.before(int(i), &c.Key, h, it, found, c.Op == Delete)
	}
	if found {
		s.bytes -= itemSize(&it.key, &it.val)
	}
	if c.Op == Delete {
		t.remove(&s.seed, it)
		s.keys--
		return
	}
	t.put(&s.seed, &c.Key, h, it, found, &c.Value)
	s.bytes += itemSize(&c.Key, &c.Value)
	if !found {
		s.keys++
	}
}

// itemSize is how many bytes a key and its value take in a snapshot.
func itemSize(k *Key, v *Value) uint64 { return 2 + uint64(k.n) + uint64(v.n) }
