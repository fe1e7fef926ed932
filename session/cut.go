package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// doubt is what a session knows while it suspects that the path does not carry its packets.
type doubt struct {
	since    monotime.Time
	num      uint64 // of the request that has timed out
	rx       uint32 // its answers until then
	slot     uint8  // where it is
	on       bool
	timed    bool // a request has timed out: num, rx and slot say which; else the network said it
	answered bool // the server has said since then that the request waits
	paused   bool // nothing is sent
}

// suspectAfter is how many timeouts in a row of one request make the session suspect that the path
// does not carry its packets.
const suspectAfter = 2

// withheld is how many credits a paused session lacks: more than any has.
const withheld = 1 << 20

// suspect notes that slot i has timed out: suspectAfter times or more, or in packets larger than
// the session's. It returns false if that ends the request.
func (c *Client) suspect(i uint8, now monotime.Time, out *Out) bool {
	s := &c.slots[i]
	if s.cut < c.cut { // the session is below already
		return c.recount(i, now, out)
	}
	if d := &c.doubt; !d.on {
		c.SuspectPath(now)
		d.timed, d.num, d.rx, d.slot = true, s.reqNum, s.numRx, i
	}
	return true
}

// SuspectPath makes the session suspect that the path does not carry its packets, before requests
// have timed out. Nothing happens if there are no smaller ones.
func (c *Client) SuspectPath(now monotime.Time) {
	if c.open && !c.doubt.on && c.nextCut(c.cut) != 0 {
		c.doubt = doubt{since: now, on: true}
	}
}

// Suspects reports since when requests have had no answer, though they were repeated: ok is false
// if the path is not suspected. Then the owner finds out with a PathProbe whether the path carries
// the packets, calls LowerCut if it does not, and then Trust.
func (c *Client) Suspects() (since monotime.Time, ok bool) { return c.doubt.since, c.doubt.on }

// Recovered reports whether what made the session suspect its path is over: the request that had
// timed out has got an answer since.
func (c *Client) Recovered() bool {
	d := &c.doubt
	if !d.timed {
		return false
	}
	s := &c.slots[d.slot]
	switch {
	case d.answered:
		return true
	case s.busy && s.reqNum == d.num:
		return s.numRx > d.rx
	}
	return s.gaveUp == nil || s.gaveUp.num != d.num // else it has ended without an answer
}

// Pause makes a session that suspects its path send nothing more until Trust or Unpause, if it has
// messages of several packets under way: they could fill a queue, which then loses large packets
// first.
func (c *Client) Pause() {
	if !c.doubt.on || c.doubt.paused {
		return
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.busy && !s.waits && (s.numReq > 1 || s.numResp > 1) {
			c.doubt.paused = true
			c.credits -= withheld
			return
		}
	}
}

// Unpause ends a pause, though the session suspects its path still.
func (c *Client) Unpause(now monotime.Time, out *Out) {
	if !c.doubt.paused {
		return
	}
	c.doubt.paused = false
	c.credits += withheld
	if c.stalled > 0 {
		c.pump(now, out)
	}
}

// Trust ends a suspicion: the path carries packets of the size in use. Requests that are counted in
// larger ones, and of which nothing is on its way or packets seem to be lost, are counted anew.
func (c *Client) Trust(now monotime.Time, out *Out) {
	if c.doubt.paused {
		c.credits += withheld
	}
	c.doubt = doubt{}
	for i := range c.slots {
		s := &c.slots[i]
		late := s.waits || s.retries > 0 || s.numTx == s.numRx
		if s.busy && s.cut < c.cut && late && c.recount(uint8(i), now, out) {
			c.rollback(uint8(i), now, out)
		}
	}
	if c.stalled > 0 {
		c.pump(now, out)
	}
}

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
// whether that changes anything. Requests under way are counted anew when they time out, or by
// Trust: their packets may be on their way.
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
	c.setCut(cut)
	c.narrow(cut)
	return true
}

// setCut makes a cut that of requests which begin.
func (c *Client) setCut(cut wire.Cut) {
	c.cut, c.PerPacket = cut, int(c.full)
	if cut != 0 {
		c.PerPacket = wire.CutSizes[cut] - wire.HeaderSize
	}
}

// Narrowed reports whether the session's packets are smaller than what was agreed on.
func (c *Client) Narrowed() bool { return c.cut != 0 }

// LargerSize returns the size in bytes, header included, of the nth larger packets that the session
// may have again, the largest first. It is 0 if there are no more.
func (c *Client) LargerSize(n int) int {
	for cut := wire.Cut(0); cut < c.cut; cut++ {
		size := c.sizeOf(cut)
		if size == 0 {
			continue
		}
		if n == 0 {
			return size
		}
		n--
	}
	return 0
}

// sizeOf returns the size of the packets of a cut in bytes, header included; 0 if the session has
// no such packets.
func (c *Client) sizeOf(cut wire.Cut) int {
	agreed := int(c.full) + wire.HeaderSize
	switch size := wire.CutSizes[cut]; {
	case cut == 0:
		return agreed
	case size < agreed:
		return size
	}
	return 0
}

// RaiseCut makes the session's packets as large as its path carries again: size bytes, header
// included, but no larger than what was agreed on. Requests under way stay as they are counted. It
// reports whether that changes anything.
func (c *Client) RaiseCut(size int) bool {
	for cut := wire.Cut(0); cut < c.cut; cut++ {
		if n := c.sizeOf(cut); n != 0 && n <= size {
			c.setCut(cut)
			c.widen(n)
			return true
		}
	}
	return false
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
	c.credits += int32(s.numTx - s.numRx)
	c.clearQuiet(s)
	s.cut, s.per = c.cut, uint32(c.PerPacket)
	s.numReq, s.numResp, s.numTx, s.numRx = n, 0, 0, 0
	s.probes = false
	if s.waits { // the server has all of it
		s.numTx, s.numRx = n-1, n-1
	}
	s.forgetAhead()
	s.highTx = wire.MaxPackets // all of it may have been sent before
	return true
}
