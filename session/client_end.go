package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// gaveUp is a slot's memory of requests that it gave up.
type gaveUp struct {
	num       uint64 // of the last one
	count     uint32 // numbers in a row up to num
	withheld  bool   // the slot is not used until the server answers
	repeating bool   // the CANCEL of the last one is repeated
	reqType   uint8
	tries     uint8
	at        monotime.Time // of the last CANCEL
}

const (
	// maxSkip is how many uses of a slot a packet may be ahead of what the server has seen. More
	// is no honest client.
	maxSkip = 1 << 16
	// maxGivenUp is how many requests in a row a slot gives up unheard. Then it waits until the
	// server says what it has seen.
	maxGivenUp = maxSkip / 2
)

// Cancel ends request ref with the reason err, and tells the server. The server may or may not run
// it, or be running it. The owner asks for a flush before, since packets of the request may be in
// queues. Cancel returns false if no such request is here.
func (c *Client) Cancel(ref uint32, err error, now monotime.Time, out *Out) bool {
	if c.queue.remove(ref) {
		c.fail(ref, err, out)
		return true
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.busy && s.op.Ref == ref {
			c.giveUp(uint8(i), now, out)
			c.fail(ref, err, out)
			return true
		}
	}
	return false
}

// giveUp ends the request in slot i before its answer has come. The server is told once, since it
// may be told in vain: the slot's next number says the same. Only a request that is known to wait
// there would hold its place for long, and is given up until the server says that it knows.
func (c *Client) giveUp(i uint8, now monotime.Time, out *Out) {
	s := &c.slots[i]
	if s.gaveUp == nil {
		s.gaveUp = new(gaveUp)
	}
	waited, g := s.waits, s.gaveUp
	g.reqType = s.op.ReqType
	sent := s.numTx > 0 || s.highTx > 0
	c.credits += int(s.numTx - s.numRx)
	if c.queued(s, out) {
		out.Flush()
	}
	c.release(i)
	c.reuseLast(i)
	if !sent {
		s.reqNum -= uint64(len(c.slots)) // nobody has seen the number
	} else {
		if g.count++; s.reqNum-g.num != uint64(len(c.slots)) {
			g.count = 1 // the one before was answered
		}
		g.num = s.reqNum
		c.sendCancel(s, now, out)
		g.withheld = g.count >= maxGivenUp
		if waited || g.withheld {
			g.repeating, g.tries = true, 0
			c.ending++
		}
		if g.withheld {
			c.free = append(c.free[:0], c.free[1:]...) // it is the one to be used last
		}
	}
	if c.stalled.n > 0 {
		c.pump(now, out)
	}
	if c.queue.n > 0 {
		c.startQueued(now, out)
	}
}

func (c *Client) sendCancel(s *clientSlot, now monotime.Time, out *Out) {
	c.sendControl(out, &wire.Header{
		Type: wire.TypeCancel, ReqType: s.gaveUp.reqType, ReqNum: s.reqNum,
		Hold: wire.TryHold(uint16(s.gaveUp.tries), 0),
	})
	s.gaveUp.at = now
}

// stopCancel ends the repetition of a slot's CANCEL.
func (c *Client) stopCancel(s *clientSlot) {
	s.gaveUp.repeating = false
	c.ending--
}

// reuseLast moves slot i, if free, to the bottom of the stack of free slots: its handler
// may still run at the server, which takes no new request for the slot until then.
func (c *Client) reuseLast(i uint8) {
	for at, f := range c.free {
		if f == i {
			copy(c.free[1:at+1], c.free[:at])
			c.free[0] = i
			return
		}
	}
}

// OnPast takes the server's word that a slot has seen the number of a packet, or a newer one. For
// a request under way that should not be: a packet whose number was damaged may have used it up.
// Several in a row end the session, since the request would never be answered. They prove nothing
// about its handler.
func (c *Client) OnPast(h *wire.Header, in *Arrival, out *Out) {
	i := uint8(h.ReqNum & uint64(len(c.slots)-1))
	s := &c.slots[i]
	if s.reqNum != h.ReqNum {
		c.stats.DropPast++
		return
	}
	if s.busy {
		c.countPast(s, h, out)
		return
	}
	g := s.gaveUp
	if g == nil || g.num != h.ReqNum {
		c.stats.DropPast++
		return
	}
	g.count = 0
	if g.repeating {
		c.stopCancel(s)
	}
	if g.withheld {
		g.withheld = false
		c.free = append(c.free, i)
		c.startQueued(in.Now, out)
	}
}

// maxPasts is how many tries in a row are past until the session is given up.
const maxPasts = 4

// countPast counts the tries of a request that are past.
func (c *Client) countPast(s *clientSlot, h *wire.Header, out *Out) {
	if !wire.SameTry(h.Hold, s.try) || s.pasts > 0 && wire.SameTry(s.pastTry, s.try) {
		c.stats.DropPast++
		return
	}
	s.pastTry = s.try
	if s.pasts++; s.pasts == maxPasts {
		ev := out.add(EventBroken)
		ev.Session, ev.Err = c.Local, ErrOutOfStep
	}
}

// Drain takes the peer's word that it shuts down. Requests of which nothing was sent end with
// ErrDraining, and no new ones start. It reports whether that is news.
func (c *Client) Drain(out *Out) bool {
	if c.drains {
		return false
	}
	c.drains = true
	for c.queue.n > 0 {
		op, _ := c.queue.pop()
		c.fail(op.Ref, ErrDraining, out)
	}
	return true
}

// Awaits reports whether a packet that this half has sent and that has no answer begins with b, or
// b with it. With checksums only all of a packet shows that. B holds at least the header, which h
// says again.
func (c *Client) Awaits(h *wire.Header, b []byte) bool {
	if !c.open || h.Session != c.Remote || h.Type != wire.TypeReq && h.Type != wire.TypeRFR {
		return false
	}
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	k := uint32(h.PktNum)
	if !s.busy || s.reqNum != h.ReqNum || k < s.numRx || k >= max(s.numTx, s.highTx) {
		return false
	}
	size := wire.HeaderSize
	if k < s.numReq {
		size += payload(s.op.Req.Size(), int(s.per), k)
	}
	return c.TokenIn(b[:min(len(b), size)]) == c.RemoteToken
}

// Draining reports whether the peer takes no new requests.
func (c *Client) Draining() bool { return c.drains }

// Close ends every request with err: those in slots by slot, then the queue in its order. The
// last outcome is EventClosed. It refuses new ones. The owner asks for a flush before, as for
// Cancel.
func (c *Client) Close(err error, out *Out) {
	c.closed = true
	for i := range c.slots {
		if s := &c.slots[i]; s.busy {
			c.fail(s.op.Ref, err, out)
			c.credits += int(s.numTx - s.numRx)
			c.release(uint8(i))
		}
	}
	for c.queue.n > 0 {
		op, _ := c.queue.pop()
		c.fail(op.Ref, err, out)
	}
	c.stalled, c.ending = slotLine{}, 0
	out.add(EventClosed).Session = c.Local
}
