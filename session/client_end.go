package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// gaveUp is a slot's memory of the last request that it gave up.
type gaveUp struct {
	num     uint64
	reqType uint8
	held    bool // the slot is in use until the server says that it is free: the CANCEL is repeated
	runs    bool // the server has said that the handler still runs, and will say when it ends
	tries   uint8
	at      monotime.Time // of the last CANCEL
	since   monotime.Time // of the first one
}

// maxSkip is how many uses of a slot a packet may be ahead of what the server has seen. More is no
// honest client.
const maxSkip = 1 << 16

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

// giveUp ends the request in slot i before its answer has come. Its handler may run, and then the
// server takes no newer request in the slot. So if any packet has left, the slot stays in use until
// the server says that it is free; the CANCEL is repeated until then.
func (c *Client) giveUp(i uint8, now monotime.Time, out *Out) {
	s := &c.slots[i]
	sent := s.numTx > 0 || s.highTx > 0
	c.credits += int(s.numTx - s.numRx)
	if c.queued(s, out) {
		out.Flush()
	}
	reqType := s.op.ReqType
	c.release(i)
	if sent {
		c.free = c.free[:len(c.free)-1] // where release has just put it
		c.held++
		if s.gaveUp == nil {
			s.gaveUp = new(gaveUp)
		}
		*s.gaveUp = gaveUp{num: s.reqNum, reqType: reqType, held: true, since: now}
		c.sendCancel(s, now, out)
	} else {
		s.reqNum -= uint64(len(c.slots)) // nobody has seen the number
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

// Held returns how many slots are in use by requests that were given up.
func (c *Client) Held() int { return int(c.held) }

// OnPast takes the server's word that a slot has seen the number of a packet, or a newer one. For
// a request under way that should not be: a packet whose number was damaged may have used it up.
// Several in a row end the session, since the request would never be answered. They prove nothing
// about its handler. For a request that was given up it says whether the slot is free.
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
	if g == nil || g.num != h.ReqNum || !g.held {
		c.stats.DropPast++
		return
	}
	if wire.SlotBusy(h.Hold) {
		g.runs, g.tries = true, 0
		return
	}
	g.held = false
	c.held--
	c.free = append(c.free, i)
	c.startQueued(in.Now, out)
	out.add(EventFreed).Session = c.Local
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

// Awaits reports whether b is the beginning of a packet that this half has sent and that has no
// answer, or begins with such a packet. With checksums only a whole packet shows that. B holds at
// least the header, which is also in h.
func (c *Client) Awaits(h *wire.Header, b []byte) bool {
	if !c.open || h.Session != c.Remote || h.Version != c.Version ||
		h.Type != wire.TypeReq && h.Type != wire.TypeRFR {
		return false
	}
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	k := h.PktNum
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
	c.stalled, c.held = slotLine{}, 0
	out.add(EventClosed).Session = c.Local
}
