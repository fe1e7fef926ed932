package session

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// dgram is one packet on its way.
type dgram struct {
	raw  []byte // in memory of its own
	loan *loan  // of the transport that sends it; nil if it has copied all
	in   *Tx    // the bundle in which it travels; nil if it is alone
}

func (p dgram) header() (h wire.Header) {
	if err := h.Parse(p.raw); err != nil {
		panic(fmt.Sprintf("a session made a packet that does not parse: %v", err))
	}
	return h
}

// read is the last moment at which a lending transport can look at the packet's data: the
// packet is there, or lost.
func (p dgram) read(tb testing.TB) {
	p.loan.end(tb)
}

func flatten(t Tx) dgram {
	return dgram{raw: append(append([]byte(nil), t.Head...), t.Data...)}
}

// unbundle returns the packets of a bundle as they would be alone.
func unbundle(tb testing.TB, t *Tx, sums bool) (ps []dgram) {
	tb.Helper()
	var b wire.Bundle
	if err := b.Parse(t.Head); err != nil || len(t.Data) > 0 {
		tb.Fatalf("a session made a bundle that does not parse: %v, %d bytes behind it", err, len(t.Data))
	}
	token := wire.Token(t.Head)
	if sums {
		token ^= wire.Checksum(t.Head, nil)
	}
	in := new(Tx)
	for {
		var h wire.Header
		data, ok := b.Next(&h)
		if !ok {
			return ps
		}
		if b.Another() {
			token = b.Token()
		}
		raw := append(make([]byte, wire.HeaderSize), data...)
		h.Put(raw, token)
		if sums {
			wire.SetToken(raw, token^wire.Checksum(raw, nil))
		}
		ps = append(ps, dgram{raw: raw, in: in})
	}
}

// loan is packet data to which a lending transport refers.
type loan struct {
	data []byte
	sum  uint64
	size int // of the message, bytes
	over bool
}

var sumSeed = maphash.MakeSeed()

// end reads the data, unless that was done before.
func (l *loan) end(tb testing.TB) {
	if l == nil || l.over {
		return
	}
	l.over = true
	if maphash.Bytes(sumSeed, l.data) != l.sum {
		tb.Fatal("a buffer was changed or given back while its packet was queued")
	}
}

// lose drops the n packets of the queue from at on.
func lose(tb testing.TB, q *[]dgram, at, n int) {
	for _, p := range (*q)[at : at+n] {
		p.read(tb)
	}
	*q = append((*q)[:at:at], (*q)[at+n:]...)
}

// sender is the sending side of a transport. It copies the heads of packets; their data it
// copies too, or it lends.
type sender struct {
	to    packet.Addr
	lends bool
	loans []*loan
	rnd   *rand.Rand // not nil: it takes only some packets of a batch
	kept  []uint64   // sums of the packets that it did not take
	sums  bool       // the session has checksums
	count int        // bundles taken

	company *End // whose packets are in each batch before the others; nil if nobody's are
}

// stranger is the number of the session of sender.company.
const stranger = 0xABCDEF

// accompany opens a bundle, so that small packets go the short way.
func (s *sender) accompany(out *Out) {
	if s.company != nil {
		s.company.put(out, 2, "company")
		s.company.put(out, 4, "company")
	}
}

// sum is of the message data in a packet that waits. Its header may be written again: a copy of
// the packet has the same memory.
func sum(t *Tx) uint64 {
	head := wire.HeaderSize
	if wire.IsBundle(t.Head) {
		head = 0 // nobody writes it again
	}
	return maphash.Bytes(sumSeed, flatten(*t).raw[head:])
}

// take takes the first n packets of out.
func (s *sender) take(tb testing.TB, out *Out, n int) (ps []dgram) {
	for i := range out.Tx {
		t := &out.Tx[i]
		if t.Dst != s.to {
			tb.Fatalf("packet for %v", t.Dst)
		}
		if i < len(s.kept) && sum(t) != s.kept[i] {
			tb.Fatal("a packet was changed while it waited for the transport")
		}
		if i >= n {
			continue
		}
		if wire.IsBundle(t.Head) {
			s.count++
			for _, p := range unbundle(tb, t, s.sums) {
				if p.header().Session != stranger {
					ps = append(ps, p)
				}
			}
			continue
		}
		p := flatten(*t)
		if s.lends && len(t.Data) > 0 {
			h := p.header()
			p.loan = &loan{data: t.Data, sum: maphash.Bytes(sumSeed, t.Data), size: int(h.MsgSize)}
			s.loans = append(s.loans, p.loan)
		}
		ps = append(ps, p)
	}
	s.kept = nil
	return ps
}

// flush reads all data to which the transport refers.
func (s *sender) flush(tb testing.TB) {
	for _, l := range s.loans {
		l.end(tb)
	}
	s.loans = nil
}

// share returns how many packets of out the transport takes now.
func (s *sender) share(out *Out) int {
	if s.rnd == nil {
		return len(out.Tx)
	}
	return s.rnd.IntN(len(out.Tx) + 1)
}

// sent tells out that the transport has taken n packets.
func (s *sender) sent(out *Out, n int) {
	if n == len(out.Tx) {
		out.Reset()
	} else {
		out.Keep(len(out.Tx) - n)
		for i := range out.Tx {
			s.kept = append(s.kept, sum(&out.Tx[i]))
		}
	}
	s.loans = slices.DeleteFunc(s.loans, func(l *loan) bool { return l.over })
	s.accompany(out)
}

// spoilFree writes over buffers that the pool gives out next, of the sizes of those to which the
// transport refers.
func (s *sender) spoilFree(pool *msgbuf.Pool) {
	last := -1
	for _, l := range s.loans {
		if l.over || l.size == last {
			continue
		}
		last = l.size
		if b, err := pool.Alloc(l.size); err == nil {
			spoil(b)
		}
	}
}
