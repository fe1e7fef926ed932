package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// OnWait takes the server's word that it has the whole request and the handler waits. The request
// gives its credit back and is not repeated any more, unless the server asks to keep it: then
// only the timeouts go on.
func (c *Client) OnWait(h *wire.Header, in *Arrival, out *Out) {
	i, ok := c.accept(h)
	if !ok {
		return
	}
	s := &c.slots[i]
	if h.PktNum != s.numReq-1 {
		c.stats.DropSize++
		return
	}
	s.pasts = 0
	c.stuck = false
	if s.waits || h.Flags&wire.FlagKeep != 0 {
		return
	}
	retries, fast := s.retries, s.fast
	s.retries, s.fast = 0, 0
	s.progress = in.Now
	rtt := c.waitRTT(s, h, in.Now, retries, fast)
	c.learn(in, rtt, wire.HeaderSize, h)
	c.credits += int(s.numTx - s.numRx)
	s.numRx, s.numTx = s.numReq-1, s.numReq-1
	s.highTx = max(s.highTx, s.numReq)
	c.clearQuiet(s)
	s.waits = true
	ref := s.op.Ref
	if c.stalled.n > 0 {
		c.pump(in.Now, out)
	}
	ev := out.add(EventProgress)
	ev.Ref, ev.RTT = ref, rtt
}

// waitRTT returns the round trip of a packet that a WAIT answers, 0 if it is not known.
func (c *Client) waitRTT(
	s *clientSlot, h *wire.Header, now monotime.Time, retries, fast uint8,
) time.Duration {
	if !wire.SameTry(h.Hold, s.try) { // an answer to an earlier copy
		c.keep(retries, fast, s.sent(h.PktNum), now)
		return 0
	}
	held, known := wire.CoarseHold(h.Hold)
	if !known {
		return 0
	}
	took := now.Sub(s.sent(h.PktNum))
	rtt := c.floor.check(took, max(took-held, 1))
	c.rtt.sample(rtt)
	return rtt
}

// scanQuiet looks after a slot that expects no answer, or one to its CANCEL. A waiting request is
// asked after now and then, so that one that the server has lost ends; so is a slot whose handler
// runs though its request was given up, since the word that it has ended may be lost. It returns
// how many CANCELs in a row have had no answer.
func (c *Client) scanQuiet(i uint8, now monotime.Time, out *Out) (retries uint8) {
	s := &c.slots[i]
	if s.busy {
		if s.waits && now.Sub(s.progress) >= c.queryAfter {
			c.rollback(i, now, out)
		}
		return 0
	}
	if !s.held() {
		return 0
	}
	g, wait := s.gaveUp, c.queryAfter
	if !g.runs {
		wait = c.rtt.timeout(g.tries)
	}
	if now.Sub(g.at) < wait {
		return 0
	}
	g.tries = min(g.tries+1, 254)
	c.stats.Retransmits++
	c.sendCancel(s, now, out)
	if g.runs {
		return 0
	}
	return g.tries
}

// ack tells the server that its late answer is here.
func (c *Client) ack(h *wire.Header, out *Out) {
	c.sendControl(out, &wire.Header{
		Type: wire.TypeAck, ReqType: c.requestType(h), ReqNum: h.ReqNum, PktNum: h.PktNum,
	})
}

// requestType returns the type of the request that h answers; 0 if it is not known any more.
func (c *Client) requestType(h *wire.Header) uint8 {
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	switch {
	case h.Version == wire.OldVersion:
		return h.ReqType
	case s.busy && s.reqNum == h.ReqNum:
		return s.op.ReqType
	case s.gaveUp != nil && s.gaveUp.num == h.ReqNum:
		return s.gaveUp.reqType
	}
	return 0
}

// ackForgotten acknowledges a late answer to a request that has ended here: nobody waits for it.
func (c *Client) ackForgotten(h *wire.Header, out *Out) {
	if h.Flags&wire.FlagLate == 0 {
		return
	}
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	if h.ReqNum < s.reqNum || h.ReqNum == s.reqNum && (!s.busy || h.PktNum < s.numRx) {
		c.ack(h, out)
	}
}
