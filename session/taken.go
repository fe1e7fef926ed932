package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// AppendTaken appends to b, as an extension of wire, the last request of each slot that runs or has
// run. If the session's packets have no room for it b stays as it is. Nothing later is taken: new
// requests are refused, and those whose packets have come in part go on; or the session ends, and
// the owner calls it just before Close.
func (s *Server) AppendTaken(b []byte, ends bool) []byte {
	if wire.AliveSize+wire.TakenSize(len(s.slots)) > s.PerPacket {
		return b
	}
	b = wire.AppendTaken(b, len(s.slots))
	for i := range s.slots {
		sl := &s.slots[i]
		num := sl.reqNum
		if num > 0 && sl.state == stateReceiving && ends {
			num--
		}
		b = wire.AppendNumber(b, num)
	}
	return b
}

// NotTaken ends with err the requests that the server, which takes no new ones, certainly has not
// taken: those behind the last one of their slots, and those that wait for a slot. The owner asks
// for a flush before, as for Cancel.
func (c *Client) NotTaken(t wire.Taken, err error, now monotime.Time, out *Out) {
	for c.queue.n > 0 {
		op, _ := c.queue.pop()
		c.fail(op.Ref, err, out)
	}
	if !c.open || t.Slots() != len(c.slots) {
		return
	}
	for i := range c.slots {
		s := &c.slots[i]
		if !s.busy || s.reqNum <= t.At(i) {
			continue
		}
		c.fail(s.op.Ref, err, out)
		c.credits += int(s.numTx - s.numRx)
		c.release(uint8(i))
	}
	if c.drains && c.stalled.n > 0 {
		c.pump(now, out) // those that were taken go on
	}
}
