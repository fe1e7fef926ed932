package memcached

import (
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// A get looks up a batch of keys at a time, and makes about so many bytes of answers before it
// writes them: a client that asks for much and reads nothing costs this, and the largest value.
const (
	batch  = 64
	budget = 256 << 10
)

// lookups are those of one get: up to batch keys, and of these the ones of a partition.
type lookups struct {
	n      int // of the lists
	keys   [batch][]byte
	hashes [batch]uint64
	at     [batch]int    // which key of the batch each of keys is
	ends   [batch][2]int // the answer for each key, in out
	parts  [batch]int    // partition of each key, or one of the following
	out    []byte
	limit  int // no answer is made when out has so many bytes
	how    how

	read func(*mica.Reader)    // the method, so that no call allocates one
	own  func(*mica.Partition) // the same
}

// In place of a partition.
const (
	asked    = -1 // and no answer was made
	answered = -2
)

// how says what a get does and how it answers.
type how struct {
	withCAS, touch bool
	exptime        int64
	end            string // of the answer to each key
}

// getSome looks keys up, batch at most, and answers in their order.
func (c *conn) getSome(keys [][]byte, h how) error {
	m := &c.multi
	m.how = h
	box, _ := c.s.outs.Get().(*[]byte)
	if box == nil {
		box = new([]byte)
	}
	m.out = *box
	var err error
	for len(keys) > 0 && err == nil {
		n := 0
		if n, err = c.getFirst(keys); err == nil {
			keys = keys[n:]
		}
	}
	if cap(m.out) <= 2*budget {
		*box = m.out
		c.s.outs.Put(box)
	}
	m.out = nil
	return err
}

// getFirst answers as many of the keys, one at least, as the budget allows. They are looked up by
// their partitions, which share it, as each visit to one can wait for its owner. An answer behind
// a key that has none yet is thrown away.
func (c *conn) getFirst(keys [][]byte) (n int, err error) {
	m := &c.multi
	m.out = m.out[:0]
	parts := c.s.cfg.Store.Partitions()
	var hashes [batch]uint64
	for i, key := range keys {
		hashes[i] = mica.Hash(key)
		m.parts[i] = mica.PartitionOf(hashes[i], parts)
	}
	for i := range keys {
		part := m.parts[i]
		if part < 0 {
			continue
		}
		if len(m.out) >= budget {
			break
		}
		m.n = 0
		for j := i; j < len(keys); j++ {
			if m.parts[j] == part {
				m.keys[m.n], m.hashes[m.n], m.at[m.n] = keys[j], hashes[j], j
				m.parts[j] = asked
				m.n++
			}
		}
		m.limit = len(m.out) + budget*m.n/len(keys)
		if err := c.look(part); err != nil {
			return 0, err
		}
	}
	if m.n == len(keys) { // one partition has answered in order
		for n < len(keys) && m.parts[n] == answered {
			n++
		}
		_, err = c.w.Write(m.out)
		return n, err
	}
	for n < len(keys) && m.parts[n] == answered && err == nil {
		_, err = c.w.Write(m.out[m.ends[n][0]:m.ends[n][1]])
		n++
	}
	return n, err
}

// look looks up what the lists have, in the thread of the connection if it can be.
func (c *conn) look(part int) error {
	m := &c.multi
	if m.own == nil {
		m.read, m.own = m.byReader, m.byOwner
	}
	if c.s.reads != nil && !m.how.touch {
		return c.s.reads.Read(part, m.read)
	}
	return c.s.cfg.Store.Do(part, m.own)
}

func (m *lookups) byReader(r *mica.Reader) {
	r.Warm(m.hashes[:m.n])
	for i := 0; i < m.n && len(m.out) < m.limit; i++ {
		it, found := r.Get(m.hashes[i], m.keys[i])
		m.answer(i, &it, found)
	}
}

func (m *lookups) byOwner(p *mica.Partition) {
	p.Warm(m.hashes[:m.n])
	for i := 0; i < m.n && len(m.out) < m.limit; i++ {
		var it mica.Item
		var found bool
		if m.how.touch {
			it, found = p.Touch(m.hashes[i], m.keys[i], expires(p.Now(), m.how.exptime))
		} else {
			it, found = p.Get(m.hashes[i], m.keys[i])
		}
		m.answer(i, &it, found)
	}
}

// answer appends the answer to one key of the lists.
func (m *lookups) answer(i int, it *mica.Item, found bool) {
	from, at := len(m.out), m.at[i]
	if found {
		m.out = appendItem(m.out, m.keys[i], it, m.how.withCAS)
	}
	m.out = append(m.out, m.how.end...)
	m.ends[at], m.parts[at] = [2]int{from, len(m.out)}, answered
}

func appendItem(b, key []byte, it *mica.Item, withCAS bool) []byte {
	b = append(append(b, "VALUE "...), key...)
	b = strconv.AppendUint(append(b, ' '), uint64(it.Flags), 10)
	b = strconv.AppendInt(append(b, ' '), int64(len(it.Value)), 10)
	if withCAS {
		b = strconv.AppendUint(append(b, ' '), it.Version, 10)
	}
	b = append(append(b, "\r\n"...), it.Value...)
	return append(b, "\r\n"...)
}
