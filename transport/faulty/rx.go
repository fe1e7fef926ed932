package faulty

import "github.com/userspace-rpc/erpc/transport"

// RxBurst implements [transport.Transport]. Held packets that are due come first,
// then what arrived, then what became due by that.
func (t *Transport) RxBurst(pkts []transport.RxPacket) (int, error) {
	if len(t.tx.store.queue) > 0 && !t.closed.Load() {
		t.releaseTX(t.clock())
	}
	if !t.rx.faulty && !t.anyCut() {
		n, err := t.inner.RxBurst(pkts)
		t.rx.counts.Packets += uint64(n)
		return n, err
	}
	if t.closed.Load() {
		return 0, transport.ErrClosed
	}
	t.rx.store.takeBack()
	out := t.releaseRX(pkts, 0)
	n, err := t.inner.RxBurst(pkts[out:])
	if err != nil {
		return 0, err
	}
	for _, p := range pkts[out : out+n] {
		if t.arrive(&p) {
			pkts[out] = p
			out++
		}
		t.rx.counts.Packets++
	}
	return t.releaseRX(pkts, out), nil
}

// releaseRX adds held packets that are due to pkts, of which n are filled already,
// as far as there is room.
func (t *Transport) releaseRX(pkts []transport.RxPacket, n int) int {
	s := &t.rx.store
	if len(s.queue) == 0 {
		return n
	}
	now := t.clock()
	for n < len(pkts) {
		q := s.due(t.rx.counts.Packets, now)
		if q < 0 {
			break
		}
		i := s.take(q)
		h := &s.slots[i]
		if t.isCut(h.addr, RX) {
			t.rx.counts.Cut++
			s.release(i)
			continue
		}
		pkts[n] = transport.RxPacket{
			Data: h.buf[:h.n], From: h.addr, CE: h.ce, Shared: h.shared,
		}
		s.lend(i)
		n++
	}
	return n
}

// arrive applies its fate to a packet that came in, and reports whether it is to
// be given out now. The memory is the receiver's to write, so damage needs no copy.
func (t *Transport) arrive(p *transport.RxPacket) bool {
	c := &t.rx.counts
	var x fate
	if t.rx.faulty {
		x = t.rx.dice.next()
	}
	switch {
	case t.isCut(p.From, RX):
		c.Cut++
		return false
	case x.lose:
		c.Lost++
		return false
	}
	if x.corrupt {
		flip(p.Data, x.bits)
		c.Corrupted++
	}
	h := t.hold(&t.rx, &x, p.From, len(p.Data))
	if h != nil {
		copy(h.buf, p.Data)
		h.ce, h.shared = p.CE, p.Shared
	}
	if !x.dup {
		return h == nil
	}
	if h == nil {
		// The copy is due at once: it comes out at the end of this burst, or of the next.
		if h = t.rx.store.put(); h == nil {
			c.Overflows++
			return true
		}
		h.addr, h.n, h.after, h.at = p.From, copy(h.buf, p.Data), 0, t.clock()
		h.ce, h.shared = p.CE, p.Shared
	}
	c.Repeated++
	return true
}
