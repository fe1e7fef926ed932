package session

import (
	"errors"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// ErrNotHandling means that a slot has no request that waits for a response: it
// was answered already, or its session ended.
var ErrNotHandling = errors.New("no request waits for this response")

// Request returns the request that the slot's handler works on: its type, number
// and data. Data is valid until Respond, or until Unborrow if the request is one packet.
func (s *Server) Request(slot uint8) (reqType uint8, reqNum uint64, data []byte) {
	sl := &s.slots[slot]
	if sl.req != nil {
		return sl.reqType, sl.reqNum, sl.req.Bytes()
	}
	return sl.reqType, sl.reqNum, s.viewOf(slot)
}

// Handling reports whether request reqNum in slot still waits for its response.
func (s *Server) Handling(slot uint8, reqNum uint64) bool {
	sl := &s.slots[slot]
	return sl.state == stateHandling && sl.reqNum == reqNum
}

// Unborrow copies the slot's request out of the receive buffer, if it is still
// there and the handler has not responded.
func (s *Server) Unborrow(slot uint8) error {
	sl := &s.slots[slot]
	if sl.state != stateHandling || sl.req != nil {
		s.forgetView(slot)
		return nil
	}
	view := s.viewOf(slot)
	buf, err := s.pool.Alloc(len(view))
	if err != nil {
		return err
	}
	if s.charge(buf.Footprint()) != Granted {
		buf.Free()
		return ErrExhausted
	}
	copy(buf.Bytes(), view)
	sl.req = buf
	s.forgetView(slot)
	return nil
}

// viewOf returns the slot's request in the receive buffer, nil if it is not there.
func (s *Server) viewOf(slot uint8) []byte {
	if s.viewSlot == slot {
		return s.view
	}
	return nil
}

func (s *Server) forgetView(slot uint8) {
	if s.viewSlot == slot {
		s.view = nil
	}
}

// Detach returns the slot's request in the receive buffer and forgets where it is: the caller keeps
// that for as long as it stays there. It reports false if the request is not there. A session knows
// of one such request at a time, and callers may have more.
func (s *Server) Detach(slot uint8) (view []byte, ok bool) {
	if s.slots[slot].req != nil {
		return nil, false
	}
	view = s.viewOf(slot)
	s.forgetView(slot)
	return view, true
}

// Attach undoes Detach.
func (s *Server) Attach(slot uint8, view []byte) { s.view, s.viewSlot = view, slot }

// Take hands the slot's request over to the caller, which frees it. It is for handlers that
// run in other goroutines, and may outlive the session. It counts in the account until the caller
// releases its footprint there.
func (s *Server) Take(slot uint8) (*msgbuf.Buffer, error) {
	if err := s.Unborrow(slot); err != nil {
		return nil, err
	}
	sl := &s.slots[slot]
	buf := sl.req
	sl.req = nil
	if n := buf.Footprint(); n > smallBuffer && s.acct != nil {
		s.kept -= n
	}
	return buf, nil
}

// Prealloc returns the slot's preallocated response buffer, sized to n bytes, or nil
// if n needs more than a packet or no request waits for a response. It has grown to what
// the slot's responses needed so far: sessions are many, and most responses are small. The
// caller owns it as any other: it may outlive the slot's request and the session. The slot has
// it again when it was used for a response of one packet.
func (s *Server) Prealloc(slot uint8, n int, out *Out) *msgbuf.Buffer {
	sl := &s.slots[slot]
	if sl.state != stateHandling || n > min(s.PerPacket, maxPrealloc) {
		return nil
	}
	buf := sl.pre
	if buf == nil || n > buf.MaxSize() {
		if buf = s.growPrealloc(sl, n, out); buf == nil {
			return nil
		}
	}
	if n := buf.Footprint(); n > smallBuffer && s.acct != nil {
		sl.more().made += n
	}
	sl.pre, sl.handed = nil, buf
	buf.SetSize(n)
	return buf
}

// growPrealloc is the rare part of Prealloc.
//
//go:noinline
func (s *Server) growPrealloc(sl *serverSlot, n int, out *Out) *msgbuf.Buffer {
	if sl.pre != nil {
		s.uncharge(sl.pre.Footprint())
		out.discard(sl.pre, sl.txGen, false) // the last response may be queued yet
		sl.pre = nil
	}
	bytes := s.pool.Footprint(n)
	if s.charge(bytes) != Granted {
		return nil
	}
	buf, err := s.pool.Alloc(n)
	if err != nil {
		s.uncharge(bytes)
		return nil
	}
	return buf
}

// Respond answers the slot's request with buf, which the session owns from now on
// and frees when the client has moved on, or at once if the client gave the request up. After an
// error buf is the caller's. ErrExhausted means that the client has been answered with that error,
// since there is no memory to keep buf in.
func (s *Server) Respond(slot uint8, buf *msgbuf.Buffer, now monotime.Time, out *Out) error {
	sl := &s.slots[slot]
	if sl.state != stateHandling {
		return ErrNotHandling
	}
	if sl.gone {
		if err := buf.Lend(); err != nil {
			return err
		}
		buf.Return()
		buf.Free()
		s.endGone(sl, out)
		return nil
	}
	numResp := packets(buf.Size(), int(sl.per))
	if buf.Size() > s.MaxMessage || sl.numReq+numResp-1 > s.maxPackets() {
		return ErrTooLarge
	}
	if err := buf.Lend(); err != nil {
		return err
	}
	if buf.Footprint() > smallBuffer && !s.keep(sl, buf, now, out) {
		buf.Return()
		return ErrExhausted
	}
	sl.resp, sl.numResp, sl.nextRFR = buf, numResp, 1
	s.forgetView(slot)
	s.responded(sl)
	if numResp > 1 {
		s.hold(sl, now)
	}
	if sl.waits {
		s.startLate(sl, now, out)
	}
	s.sendResp(sl, 0, now, 0, out)
	return nil
}

// Buffered reports whether the slot's request lies in a buffer, and not where it was received.
func (s *Server) Buffered(slot uint8) bool { return s.slots[slot].req != nil }

// RespondRequest answers the slot's request, which is Buffered, with its first n bytes, as Respond
// does. Others, and larger n, are ErrNotHandling.
func (s *Server) RespondRequest(slot uint8, n int, now monotime.Time, out *Out) error {
	sl := &s.slots[slot]
	buf := sl.req
	if sl.state != stateHandling || buf == nil || n > buf.Size() {
		return ErrNotHandling
	}
	sl.req = nil
	s.countAsMade(sl, buf.Footprint())
	buf.SetSize(n)
	err := s.Respond(slot, buf, now, out)
	if err != nil {
		buf.Free()
	}
	return err
}

// GiveBack undoes Take for a request whose buffer, of n bytes, is about to be the response: the
// account has counted it all the time.
func (s *Server) GiveBack(slot uint8, n int) {
	if n > smallBuffer && s.acct != nil {
		s.kept += n
		s.countAsMade(&s.slots[slot], n)
	}
}

// countAsMade has the n bytes of a request's buffer, which count, be what the handler has made for
// its response.
func (s *Server) countAsMade(sl *serverSlot, n int) {
	if n > smallBuffer && s.acct != nil {
		sl.more().made += n
	}
}

// RespondError answers the slot's request with an error of its handler.
func (s *Server) RespondError(slot uint8, e *wire.Error, now monotime.Time, out *Out) error {
	sl := &s.slots[slot]
	if sl.state != stateHandling {
		return ErrNotHandling
	}
	if sl.gone {
		s.endGone(sl, out)
		return nil
	}
	s.running--
	if sl.waits {
		s.startLate(sl, now, out)
	}
	s.respondError(sl, e, now, out)
	return nil
}

func (s *Server) responded(sl *serverSlot) {
	s.running--
	sl.state = stateResponded
	if sl.req != nil || sl.rare != nil {
		s.freeRequest(sl)
	}
}

// codeError returns the error answer of a request whose handler did not run.
func codeError(code wire.Code) *wire.Error {
	return &wire.Error{Status: code.Status(), Code: code}
}

// respondError answers the slot's request, whatever its state, with an error. It
// answers the first packet that has not been answered.
func (s *Server) respondError(sl *serverSlot, e *wire.Error, now monotime.Time, out *Out) {
	sl.state = stateResponded
	sl.isError = true
	s.freeRequest(sl)
	sl.code, sl.status, sl.ran = e.Code, e.Status, e.Ran
	// Without memory the error goes without its text. It is remembered all the same:
	// the handler may have run, and must not run again.
	if len(e.Text)+len(e.Details) > 0 {
		sl.resp = s.errorBody(e)
	}
	pkt := uint32(0)
	if sl.numRx > 0 {
		pkt = sl.numRx - 1
	}
	s.sendError(sl, pkt, now, out)
}

// errorBody returns a buffer with the body of an error, nil if there is no memory for it.
func (s *Server) errorBody(e *wire.Error) *msgbuf.Buffer {
	buf, err := s.pool.Alloc(min(len(e.Text)+len(e.Details)+wire.MaxErrorSize-
		wire.MaxErrorText-wire.MaxErrorDetails, wire.MaxErrorSize))
	if err != nil {
		return nil
	}
	if s.charge(buf.Footprint()) != Granted {
		buf.Free()
		return nil
	}
	buf.SetSize(len(wire.AppendError(buf.Bytes()[:0], e)))
	_ = buf.Lend() // fresh from the pool: it cannot be lent
	return buf
}

// sendResp sends response packet j. Unseen is that of the packet that asked for it, 0 for a
// response that the handler has just made.
func (s *Server) sendResp(
	sl *serverSlot, j uint32, now monotime.Time, unseen time.Duration, out *Out,
) {
	if sl.numReq == 1 && sl.numResp == 1 && !sl.ce && !sl.late && sl.cut == 0 {
		sl.txGen = out.gen
		s.sendWhole(out, wire.TypeResp, s.echo(sl.reqType), hold(now.Sub(sl.rxAt)), sl.reqNum, sl.resp)
		out.answer(false, s.Checksum)
		return
	}
	var h wire.Header // not a literal, which would be built elsewhere and copied
	h.Type, h.ReqType, h.ReqNum = wire.TypeResp, s.echo(sl.reqType), sl.reqNum
	h.MsgSize, h.PktNum = uint32(sl.resp.Size()), sl.numReq-1+j
	if j == 0 {
		h.Hold = hold(now.Sub(sl.rxAt))
	} else {
		h.Hold = wire.TryHold(sl.try, unseen)
	}
	h.Flags = sl.cut.Flags()
	if sl.ce {
		h.Flags |= wire.FlagCE
	}
	if sl.late {
		h.Flags |= wire.FlagLate
	}
	head, data := sl.resp.Packet(int(j), int(sl.per))
	sl.txGen = out.gen
	s.send(out, &h, head, data)
	out.answer(j > 0, s.Checksum)
}

// hold turns a span of time into the header's field.
func hold(d time.Duration) uint16 {
	return uint16(min(d/wire.HoldUnit, wire.HoldUnknown))
}

// sendError sends the slot's error response as the answer to packet pkt.
func (s *Server) sendError(sl *serverSlot, pkt uint32, now monotime.Time, out *Out) {
	h := wire.Header{
		Type: wire.TypeErr, Flags: sl.cut.Flags(), ReqType: s.echo(sl.reqType), ReqNum: sl.reqNum,
		PktNum: pkt, Hold: hold(now.Sub(sl.rxAt)),
	}
	if sl.late {
		h.Flags |= wire.FlagLate
	}
	var head []byte
	if sl.resp != nil {
		h.MsgSize = uint32(sl.resp.Size())
		head, _ = sl.resp.Packet(0, s.PerPacket)
		sl.txGen = out.gen
	} else {
		var body [maxRefusal]byte
		e := wire.Error{Status: sl.status, Code: sl.code, Ran: sl.ran, Text: refusalText[sl.why]}
		b := wire.AppendError(body[:0], &e)
		h.MsgSize = uint32(len(b))
		head = out.grab(wire.HeaderSize + len(b))
		copy(head[wire.HeaderSize:], b)
	}
	s.send(out, &h, head, nil)
	out.answer(false, s.Checksum)
}

func (s *Server) freeRequest(sl *serverSlot) {
	if sl.req != nil || sl.rare != nil && sl.rare.holds() {
		s.dropRequest(sl)
	}
}

// clear gives back what the slot's last request held.
func (s *Server) clear(sl *serverSlot, out *Out) {
	if sl.req != nil || sl.rare != nil {
		s.freeRequest(sl)
	}
	if sl.late {
		s.stopLate(sl)
	}
	if sl.resp != nil {
		sl.resp.Return()
		// A client that does not wait for this response, since it cancelled or cheats, may
		// be early: the packets are queued yet, and the memory must not serve anyone else.
		if sl.resp == sl.handed && sl.pre == nil && sl.numResp == 1 && sl.txGen < out.gen {
			sl.pre = sl.resp
		} else {
			s.uncharge(sl.resp.Footprint())
			out.discard(sl.resp, sl.txGen, sl.numResp > 1)
		}
		sl.resp = nil
	}
	sl.handed = nil
}

// Running returns how many requests wait for their handlers.
func (s *Server) Running() int { return s.running }

// Queued reports whether a response of the session has ever been queued.
func (s *Server) Queued() bool {
	for i := range s.slots {
		if s.slots[i].txGen > 0 {
			return true
		}
	}
	return false
}

// Close gives up every buffer of the session. If one was Queued the owner asks for a flush before,
// since it may be in queues. Handlers that still run must not respond any more (their request's
// data ends here too). The last outcome is EventClosed.
func (s *Server) Close(out *Out) {
	for i := range s.slots {
		sl := &s.slots[i]
		s.clear(sl, out)
		sl.state = stateIdle
		sl.reqNum = noNewer // nothing is newer
		if sl.pre != nil {
			s.uncharge(sl.pre.Footprint())
			out.discard(sl.pre, sl.txGen, false)
			sl.pre = nil
		}
	}
	s.running, s.waiting = 0, 0
	out.add(EventClosed).Session = s.Local
}

// PrefetchSteps is how many steps Prefetch has: each reads what the one before has
// asked for.
const PrefetchSteps = 2

// Prefetch asks for the buffer in which the first slot's next response is likely to go:
// in step 0 for what describes it, in step 1 for its memory.
func (s *Server) Prefetch(step int) {
	b := s.inline[0].resp
	if b == nil {
		if b = s.inline[0].pre; b == nil {
			return
		}
	}
	if step == 0 {
		sys.Prefetch(b, 64)
	} else {
		b.Prefetch()
	}
}

// Served describes the request that a slot's handler works on, or has answered last.
type Served struct {
	ReqType uint8
	Size    int           // bytes of the request
	At      monotime.Time // when it was complete
}

// Served describes the request of a slot.
func (s *Server) Served(slot uint8) Served {
	sl := &s.slots[slot]
	return Served{sl.reqType, int(sl.msgSize), sl.rxAt}
}

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
	l.message = true
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
	pkt, data := b.Packet(0, e.PerPacket)
	if e.Checksum || l != nil && l.mayJoin(o, e, wire.HeaderSize+size) {
		h := wire.Header{
			Type: t, ReqType: reqType, Hold: hold, ReqNum: reqNum, MsgSize: uint32(size),
		}
		e.send(o, &h, pkt, data)
		return
	}
	if l != nil {
		l.message = true
	}
	wire.PutOnly(pkt, wire.First(t, e.Version), reqType, hold, uint32(size), e.Remote,
		e.RemoteToken, reqNum)
	o.push(&e.Peer, e.Via, pkt, data)
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
