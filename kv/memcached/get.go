package memcached

import (
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// batch is how many keys are looked up at a time.
const batch = 64

// lookups are those of one get: up to batch keys, and of these the ones of a partition.
type lookups struct {
	n     int // of list
	list  [batch]mica.Lookup
	at    [batch]int    // which key of the batch each of list is
	ends  [batch][2]int // the answer for each key, in out
	parts [batch]int    // partition of each key; -1: it is answered
	out   []byte
	how   how

	read func(*mica.Reader)    // the method, so that no call allocates one
	own  func(*mica.Partition) // the same
}

// how says what a get does and how it answers.
type how struct {
	withCAS, touch bool
	exptime        int64
	end            string // of the answer to each key
}

// getSome looks keys up, a batch for each partition, and answers in their order.
func (c *conn) getSome(keys [][]byte, h how) error {
	m := &c.multi
	m.out, m.how = m.out[:0], h
	parts := c.s.cfg.Store.Partitions()
	var hashes [batch]uint64
	for i, key := range keys {
		hashes[i] = mica.Hash(key)
		m.parts[i] = mica.PartitionOf(hashes[i], parts)
	}
	inOrder := true // the answers so far
	for i := range keys {
		part := m.parts[i]
		if part < 0 {
			continue
		}
		m.n = 0
		for j := i; j < len(keys); j++ {
			if m.parts[j] == part {
				l := &m.list[m.n]
				l.Hash, l.Key, m.at[m.n] = hashes[j], keys[j], j
				m.parts[j] = -1
				m.n++
			}
		}
		inOrder = m.n == len(keys)
		if err := c.look(part); err != nil {
			return err
		}
	}
	if inOrder {
		_, _ = c.w.Write(m.out) // errors come with the flush
	} else {
		for _, e := range m.ends[:len(keys)] {
			_, _ = c.w.Write(m.out[e[0]:e[1]])
		}
	}
	if cap(m.out) > keep {
		m.out = nil
	}
	return nil
}

// look looks up what the list has, in the thread of the connection if it can be.
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
	r.GetBatch(m.list[:m.n])
	for i := range m.n {
		m.answer(i)
	}
}

func (m *lookups) byOwner(p *mica.Partition) {
	if !m.how.touch {
		p.GetBatch(m.list[:m.n])
	}
	for i := range m.n {
		if l := &m.list[i]; m.how.touch {
			l.Item, l.Found = p.Touch(l.Hash, l.Key, expires(p.Now(), m.how.exptime))
		}
		m.answer(i)
	}
}

// answer appends the answer to one key of the list.
func (m *lookups) answer(i int) {
	from := len(m.out)
	if l := &m.list[i]; l.Found {
		m.out = appendItem(m.out, l, m.how.withCAS)
	}
	m.out = append(m.out, m.how.end...)
	m.ends[m.at[i]] = [2]int{from, len(m.out)}
}

func appendItem(b []byte, l *mica.Lookup, withCAS bool) []byte {
	b = append(append(b, "VALUE "...), l.Key...)
	b = strconv.AppendUint(append(b, ' '), uint64(l.Item.Flags), 10)
	b = strconv.AppendInt(append(b, ' '), int64(len(l.Item.Value)), 10)
	if withCAS {
		b = strconv.AppendUint(append(b, ' '), l.Item.Version, 10)
	}
	b = append(append(b, "\r\n"...), l.Item.Value...)
	return append(b, "\r\n"...)
}
