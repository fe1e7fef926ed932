package faulty

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// stallHold is how long a held packet stays on when the inner transport takes no more.
const stallHold = 100 * time.Microsecond

// TxBurst implements [transport.Transport]. Runs of packets without faults go to
// the inner transport as they are.
func (t *Transport) TxBurst(items []transport.TxItem) (int, error) {
	if !t.tx.faulty && !t.anyCut() {
		n, err := t.inner.TxBurst(items)
		t.tx.counts.Packets += uint64(n)
		return n, err
	}
	if t.closed.Load() {
		return 0, transport.ErrClosed
	}
	t.releaseTX(t.clock())
	start := 0 // of the run that waits to be sent
	for i := range items {
		x := t.fateOf(i - start)
		if x.clean() && !t.isCut(items[i].Dst, TX) && len(t.tx.store.queue) == 0 {
			continue
		}
		n, err := t.run(items[start:i])
		if start += n; err != nil || start < i {
			return start, err
		}
		took, err := t.faulted(&items[i], &x)
		if err != nil || !took {
			return start, err
		}
		start++
		t.settle(1)
		if len(t.tx.store.queue) > 0 {
			t.releaseTX(t.clock())
		}
	}
	n, err := t.run(items[start:])
	return start + n, err
}

// fateOf returns the fate of the i-th item that was not taken yet. It is drawn once,
// even if the item is offered again.
func (t *Transport) fateOf(i int) fate {
	for len(t.fates) <= i {
		t.fates = append(t.fates, t.tx.dice.next())
	}
	return t.fates[i]
}

// settle counts n packets as passed and forgets their fates.
func (t *Transport) settle(n int) {
	t.tx.counts.Packets += uint64(n)
	t.fates = t.fates[:copy(t.fates, t.fates[n:])]
}

// run sends items that nothing happens to.
func (t *Transport) run(items []transport.TxItem) (int, error) {
	if len(items) == 0 {
		return 0, nil
	}
	n, err := t.inner.TxBurst(items)
	t.settle(n)
	return n, err
}

// faulted sends one item as its fate has it. False means that the inner transport
// takes no more; then nothing has happened.
func (t *Transport) faulted(it *transport.TxItem, x *fate) (bool, error) {
	c := &t.tx.counts
	size := len(it.Head) + len(it.Data)
	switch {
	case t.isCut(it.Dst, TX):
		c.Cut++
		return true, nil
	case size > t.caps.MTU: // for the inner transport to refuse
		return t.sendOne(*it)
	case x.lose:
		c.Lost++
		return true, nil
	}
	out := *it
	if x.corrupt {
		out.Head, out.Data = t.spoilt[:join(t.spoilt, it)], nil
		flip(out.Head, x.bits)
	}
	if x.dup {
		if took, err := t.sendOne(out); err != nil || !took {
			return took, err
		}
	}
	if h := t.hold(&t.tx, x, it.Dst, size); h != nil {
		join(h.buf, &out)
	} else if took, err := t.sendOne(out); err != nil || !took && !x.dup {
		return took, err
	}
	if x.dup {
		c.Repeated++
	}
	if x.corrupt {
		c.Corrupted++
	}
	return true, nil
}

// join copies an item's packet to p and returns its size.
func join(p []byte, it *transport.TxItem) int {
	n := copy(p, it.Head)
	return n + copy(p[n:], it.Data)
}

// sendOne sends one packet, whose memory may be used again at once if it is ours.
func (t *Transport) sendOne(it transport.TxItem) (bool, error) {
	t.one[0] = it
	n, err := t.inner.TxBurst(t.one[:])
	t.one[0] = transport.TxItem{}
	if !t.caps.TxCopies {
		t.inner.Flush()
	}
	return n == 1, err
}

// releaseTX sends the held packets that are due. An error shows in the next call.
func (t *Transport) releaseTX(now Time) {
	s := &t.tx.store
	for q := s.due(t.tx.counts.Packets, now); q >= 0; q = s.due(t.tx.counts.Packets, now) {
		h := &s.slots[s.queue[q]]
		if t.isCut(h.addr, TX) {
			t.tx.counts.Cut++
		} else if took, _ := t.sendOne(transport.TxItem{Dst: h.addr, Head: h.buf[:h.n]}); !took {
			h.after, h.at = never, now.Add(stallHold)
			continue
		}
		s.release(s.take(q))
	}
}
