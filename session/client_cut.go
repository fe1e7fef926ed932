package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// suspectAfter is how many timeouts in a row of one request make the session suspect that the path
// does not carry its packets.
const suspectAfter = 2

// suspect notes that slot i has timed out suspectAfter times or more. It returns false if that ends
// the request.
func (c *Client) suspect(i uint8, now monotime.Time, out *Out) bool {
	s := &c.slots[i]
	if s.cut < c.cut { // the session is below already
		return c.recount(i, now, out)
	}
	c.SuspectPath(now)
	return true
}

// SuspectPath makes the session suspect that the path does not carry its packets, before requests
// have timed out. Nothing happens if there are no smaller ones.
func (c *Client) SuspectPath(now monotime.Time) {
	if c.open && !c.stuck && c.nextCut(c.cut) != 0 {
		c.stuck, c.stuckAt = true, now
	}
}

// Suspects reports since when requests have had no answer, though they were repeated: ok is false
// if the path is not suspected. Then the owner finds out with probes of that size whether the path
// carries the packets, and calls LowerCut if it does not, else Trust.
func (c *Client) Suspects() (since monotime.Time, ok bool) { return c.stuckAt, c.stuck }

// Trust ends a suspicion: packets of the size in use have come through.
func (c *Client) Trust() { c.stuck = false }

// PacketSize returns the size of the session's largest packets in bytes, header included.
func (c *Client) PacketSize() int { return c.PerPacket + wire.HeaderSize }

// nextCut returns the next cut below one, 0 if there is none.
func (c *Client) nextCut(cut wire.Cut) wire.Cut {
	for cut++; cut <= wire.MaxCut; cut++ {
		if c.perCut(cut) != 0 {
			return cut
		}
	}
	return 0
}

// NextSize returns the packet size in bytes that LowerCut would bring, 0 if there is none.
func (c *Client) NextSize() int {
	if cut := c.nextCut(c.cut); cut != 0 {
		return wire.CutSizes[cut]
	}
	return 0
}

// LowerCut makes the session's packets no larger than size bytes, header included, and reports
// whether that changes anything. Requests under way are counted anew when they time out: their
// packets may be on their way. The suspicion stays, now of the new size.
func (c *Client) LowerCut(size int) bool {
	cut := c.cut
	for wire.CutSizes[cut] > size || cut == 0 && c.PacketSize() > size {
		next := c.nextCut(cut)
		if next == 0 {
			break
		}
		cut = next
	}
	if cut == c.cut || !c.open {
		return false
	}
	c.cut = cut
	c.PerPacket = wire.CutSizes[cut] - wire.HeaderSize
	c.narrow(cut)
	return true
}

// recount starts the request in slot i over in smaller packets, under its number. The caller rolls
// it back. It returns false if the request has too many packets, and ends.
func (c *Client) recount(i uint8, now monotime.Time, out *Out) bool {
	s := &c.slots[i]
	n := packets(s.op.Req.Size(), c.PerPacket)
	if n > c.maxPackets() {
		ref := s.op.Ref
		out.Flush()
		c.giveUp(i, now, out)
		c.fail(ref, ErrTooLarge, out)
		return false
	}
	c.stats.Recounts++
	c.credits += int(s.numTx - s.numRx)
	c.clearQuiet(s)
	s.cut, s.per = c.cut, uint32(c.PerPacket)
	s.numReq, s.numResp, s.numTx, s.numRx = n, 0, 0, 0
	s.highTx = wire.MaxPackets // all of it may have been sent before
	return true
}
