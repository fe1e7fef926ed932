package kv

// numShards is a power of two. A million keys are about a thousand in each.
const numShards = 1024

// Store is the state machine. It belongs to one goroutine.
type Store struct {
	shards   [numShards]map[Key]Value
	keys     int
	sessions *sessions
	saver    *Saver // the snapshot that is being written, or nil
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{sessions: newSessions()} }

// Grow makes room for n keys, so that writes do not wait for it.
func (s *Store) Grow(n int) {
	for i := range s.shards {
		if s.shards[i] == nil {
			s.shards[i] = make(map[Key]Value, n/numShards*5/4)
		}
	}
}

// Len returns the number of keys.
func (s *Store) Len() int { return s.keys }

// Sessions returns the number of sessions.
func (s *Store) Sessions() int { return len(s.sessions.byID) }

// Get returns the value of a key.
func (s *Store) Get(k Key) (Value, bool) {
	v, ok := s.shards[k.hash()%numShards][k]
	return v, ok
}

// Apply applies the log entry at index with these bytes, and returns the answer. Malformed
// commands are ignored.
func (s *Store) Apply(index uint64, data []byte) Answer {
	c, err := ParseCommand(data)
	if err != nil {
		return Fail(err)
	}
	switch c.Op {
	case Open:
		if !s.sessions.open(index) {
			return Answer{Status: Full}
		}
		return Answer{Status: OK, Number: index}
	case Clock:
		s.sessions.tick(c.Seq)
		return Answer{Status: OK}
	case Put, Delete, CAS:
		return s.write(&c)
	}
	return Answer{Status: Malformed}
}

// Crowded reports whether there are so many sessions that the log's time counts.
func (s *Store) Crowded() bool { return len(s.sessions.byID) > s.sessions.max/2 }

// write applies a write unless it was applied already.
func (s *Store) write(c *Command) Answer {
	n := s.sessions.byID[c.Session]
	switch {
	case n == nil:
		return Answer{Status: Expired}
	case c.Seq == n.seq:
		return n.answer
	case c.Seq < n.seq:
		return Answer{Status: Stale}
	}
	s.sessions.wrote(n, c.Seq, s.change(c))
	return n.answer
}

func (s *Store) change(c *Command) Answer {
	i := c.Key.hash() % numShards
	m := s.shards[i]
	was, found := m[c.Key]
	switch c.Op {
	case CAS:
		if c.Absent == found || found && was != c.Old {
			if !found {
				return Answer{Status: NotFound}
			}
			return Answer{Status: Mismatch, Found: true, Value: was}
		}
	case Delete:
		if !found {
			return Answer{Status: NotFound}
		}
	}
	if s.saver != nil {
		s.saver.before(int(i))
	}
	if c.Op == Delete {
		delete(m, c.Key)
		s.keys--
		return Answer{Status: OK}
	}
	if m == nil {
		m = map[Key]Value{}
		s.shards[i] = m
	}
	if !found {
		s.keys++
	}
	m[c.Key] = c.Value
	return Answer{Status: OK}
}
