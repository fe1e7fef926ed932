package lending

import (
	"hash/maphash"
	"runtime/debug"

	"github.com/userspace-rpc/erpc/transport"
)

// queue holds the packets that are lent, in order, as a ring. Packets and what is known of
// them are kept apart, so that the inner transport can be given a run of packets.
type queue struct {
	items  []transport.TxItem
	marks  []mark
	inline []byte // room for a short Head per packet
	short  int    // bytes of each
	head   int
	n      int
	seed   maphash.Seed
}

// mark describes a packet that is lent.
type mark struct {
	number uint64
	after  uint64 // it may leave when Transport.ticks is so much
	bytes  content
}

// content remembers a packet's bytes.
type content struct {
	front [FrontBytes]byte
	rest  uint64 // hash of the bytes behind
}

func newQueue(ring, inline int, seed maphash.Seed) queue {
	return queue{items: make([]transport.TxItem, ring), marks: make([]mark, ring),
		inline: make([]byte, ring*inline), short: inline, seed: seed}
}

// room returns how many packets can be put.
func (q *queue) room() int { return len(q.items) - q.n }

// at returns the place in the ring of the i-th packet.
func (q *queue) at(i int) int { return (q.head + i) % len(q.items) }

// put adds a packet; there is room.
func (q *queue) put(it *transport.TxItem, number, after uint64) {
	i := q.at(q.n)
	q.n++
	own := &q.items[i]
	*own = *it
	if len(it.Head) <= q.short {
		own.Head = q.inline[i*q.short:][:copy(q.inline[i*q.short:], it.Head)]
	}
	q.marks[i] = mark{number: number, after: after, bytes: q.read(own)}
}

// due returns how many packets may leave. None does before an earlier one.
func (q *queue) due(ticks uint64) int {
	n := 0
	for n < q.n && q.marks[q.at(n)].after <= ticks {
		n++
	}
	return n
}

// run returns up to n of the first packets, as many as lie side by side.
func (q *queue) run(n int) []transport.TxItem {
	return q.items[q.head:min(q.head+n, len(q.items))]
}

// drop takes the first n packets out.
func (q *queue) drop(n int) {
	for range n {
		q.items[q.head] = transport.TxItem{}
		q.head = q.at(1)
	}
	q.n -= n
}

// check returns false and the violation if the i-th packet is not what it was. A packet
// whose memory is gone becomes one that cannot be sent, for want of a destination.
func (q *queue) check(i int) (v Violation, ok bool) {
	i = q.at(i)
	it, m := &q.items[i], &q.marks[i]
	now, readable := q.tryRead(it)
	if readable && now == m.bytes {
		return Violation{}, true
	}
	v = Violation{Dst: it.Dst, Packet: m.number, Size: len(it.Head) + len(it.Data),
		Then: m.bytes.front, Now: now.front, Rest: now.rest != m.bytes.rest, Gone: !readable}
	if !readable {
		*it = transport.TxItem{}
		now = q.read(it)
	}
	m.bytes = now // each change is reported once
	return v, false
}

// read returns what a packet's bytes are now.
func (q *queue) read(it *transport.TxItem) (c content) {
	head, data := it.Head, it.Data
	n := copy(c.front[:], head)
	head = head[n:]
	data = data[copy(c.front[n:], data):]
	c.rest = maphash.Bytes(q.seed, head)*31 + maphash.Bytes(q.seed, data)
	return c
}

// tryRead is read of memory that may have been given back to the system.
func (q *queue) tryRead(it *transport.TxItem) (c content, readable bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, fault := p.(interface{ Addr() uintptr }); !fault {
			panic(p)
		}
		c, readable = content{}, false
	}()
	return q.read(it), true
}
