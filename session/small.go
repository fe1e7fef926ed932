package session

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// The short way of most packets: requests and responses of one packet, without flags. It writes the
// same as [End.send] does for them.

// takes reports whether a bundle is open that takes a packet of e with n bytes of payload.
func (l *Link) takes(n int, e *End) bool {
	return l != nil && l.used+n+wire.MaxRecordHead <= l.max && n <= l.inside-wire.HeaderSize &&
		l.checksum == e.Checksum && l.version == e.Version
}

// putWhole writes a packet with a whole message into the open bundle, which has room for it.
func (e *End) putWhole(
	o *Out, t wire.Type, reqType uint8, hold uint16, reqNum uint64, payload []byte,
) {
	l := e.link
	at := l.used
	b := l.buf[at:]
	k := wire.PutWhole(b, t, reqType, hold, reqNum, len(payload))
	if who := e.name(); who != l.last {
		k += wire.PutAnother(b, e.Remote, e.RemoteToken)
		l.last = who
	}
	l.used = at + k + copy(b[k:], payload)
	if l.count++; l.count == wire.MaxBundled {
		l.max = 0
	}
	o.last, o.at = l.item, int32(at)
	o.Packets++
}

// sendWhole queues packet number 0 of a message of one packet, without flags, as [End.send] does,
// with less to do.
func (e *End) sendWhole(
	o *Out, t wire.Type, reqType uint8, hold uint16, reqNum uint64, b *msgbuf.Buffer,
) {
	size, l := b.Size(), e.link
	if l.takes(size, e) {
		e.putWhole(o, t, reqType, hold, reqNum, b.Bytes())
		return
	}
	pkt, _ := b.Packet(0, e.PerPacket)
	if e.Checksum || l != nil && l.mayJoin(o, e, len(pkt)) {
		h := wire.Header{
			Type: t, ReqType: reqType, Hold: hold, ReqNum: reqNum, MsgSize: uint32(size),
		}
		e.send(o, &h, pkt, nil)
		return
	}
	wire.PutOnly(pkt, wire.First(t, e.Version), reqType, hold, uint32(size), e.Remote,
		e.RemoteToken, reqNum)
	o.push(&e.Peer, e.Via, pkt, nil)
}

// sendOnly sends the only packet of a request for the first time.
func (c *Client) sendOnly(s *clientSlot, now monotime.Time, out *Out) {
	if s.cut != 0 {
		c.sendNext(s, 1, now, out)
		return
	}
	hold := uint16(0)
	if s.deadline != 0 {
		hold = wire.TryRemaining(0, s.deadline.Sub(now))
	}
	c.sendWhole(out, wire.TypeReq, s.op.ReqType, hold, s.reqNum, s.op.Req)
	if c.pace.gated {
		c.pace.charge(wire.HeaderSize + s.op.Req.Size())
	}
	s.txGen, s.numTx, s.sentAt = out.gen, 1, now // progress is now since begin
	c.credits--
	if s.op.Ref&Marked != 0 {
		out.add(EventSent).Ref = s.op.Ref
	}
}
