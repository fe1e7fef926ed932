package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// serverState says how far a server slot's request is.
type serverState uint8

const (
	stateIdle      serverState = iota // no request yet
	stateReceiving                    // some packets of a large request are here
	stateHandling                     // the handler has it
	stateResponded                    // the response is here, and may be asked for again
)

// maxPrealloc bounds the preallocated response buffer of a slot in bytes, for
// sessions with jumbo packets.
const maxPrealloc = 4096

// noNewer in place of a slot's request number says that no packet has a newer one.
const noNewer = 1<<64 - 1

// serverSlot is the state of the last request of one slot.
type serverSlot struct {
	reqNum  uint64
	state   serverState
	reqType uint8
	ce      bool // the last packet that was answered met congestion
	cut     wire.Cut
	isError bool    // the response is an error
	waits   bool    // the client was told that the handler waits
	late    bool    // the answer is repeated until it is acknowledged
	gone    bool    // the client gave the request up while its handler ran
	why     Refusal // of an error response without a text of its own
	try     uint16  // of the last RFR, or of the packet that completed the request
	per     uint32  // data bytes in a packet of both messages
	numReq  uint32
	numRx   uint32 // request packets received
	numResp uint32
	nextRFR uint32         // response packet that the next new RFR asks for
	rxAt    monotime.Time  // when the request was complete
	msgSize uint32         // bytes
	code    wire.Code      // of an error response
	status  wire.Status    // ... its status
	ran     bool           // ... and whether the handler ran
	txGen   uint64         // Out batch in which resp was last queued
	req     *msgbuf.Buffer // request that had to be copied
	resp    *msgbuf.Buffer // response
	pre     *msgbuf.Buffer // preallocated for the next response (eRPC, section 4.3)
	handed  *msgbuf.Buffer // what Prealloc gave for this request; only to compare with
	// See Server.mayRepeat.
	repeatAt monotime.Time // when the span at hand began
	repeats  uint32        // packets answered again in it
	again    uint32        // the one that was answered last

	deadline monotime.Time // when the client gives the request up, 0 if it did not say
	rare     *rareSlot     // nil until needed
}

// Server is the answering half of a session.
type Server struct {
	End
	pool    *msgbuf.Pool
	stats   *Stats
	refuse  *[256]wire.Code // why a request type is refused, CodeOK if it is not
	slots   []serverSlot
	running int // handlers that have not responded
	waiting int // slots that wait
	lates   int // slots whose answer is repeated

	// The single-packet request that is still in the receive buffer, until Unborrow.
	view     []byte
	viewSlot uint8
	cut      wire.Cut // of the request that began last

	inline [DefaultSlots]serverSlot // the slots of most sessions; see Client

	repeatSpan time.Duration // see mayRepeat
	rtt        rtoEstimator  // of late answers
	lateFor    time.Duration // how long one is repeated

	mem  *Memory  // nil if memory is not counted
	acct *Account // of the peer
	kept int      // bytes of the slots' buffers that count
	due  int      // bytes that Promise has promised
}

// ServerHot is how many bytes from the start of a Server on a small RPC touches.
const ServerHot = 336

// NewServer returns the answering half of the session that both sides have named and agreed on.
// Requests of type t with refuse[t] != CodeOK are answered with that error; the owner may change
// the table between packets.
func NewServer(
	end End, t Timing, pool *msgbuf.Pool, refuse *[256]wire.Code, stats *Stats,
) *Server {
	s := new(Server)
	s.Init(end, t, pool, refuse, stats)
	return s
}

// Init is NewServer in memory that the caller has.
func (s *Server) Init(
	end End, t Timing, pool *msgbuf.Pool, refuse *[256]wire.Code, stats *Stats,
) {
	s.End, s.pool, s.stats, s.refuse = end, pool, stats, refuse
	s.fillVersion()
	s.repeatSpan = t.RTOMin / 4
	s.rtt, s.lateFor = newRTOEstimator(&t), t.FailureTimeout
	if s.Slots <= DefaultSlots {
		s.slots = s.inline[:s.Slots]
	} else {
		s.slots = make([]serverSlot, s.Slots)
	}
}

// LowerMTU makes packets of at most mtu bytes if no request has come yet: packet numbers
// depend on the size. Other sizes are ignored.
func (s *Server) LowerMTU(mtu uint32) {
	if mtu >= MinMTU && mtu < uint32(s.PerPacket+wire.HeaderSize) && s.unused() {
		s.PerPacket = int(mtu) - wire.HeaderSize
		if s.link != nil {
			s.link.Limit(int(mtu))
		}
	}
}

// unused reports whether no request has come yet.
func (s *Server) unused() bool {
	for i := range s.slots {
		if s.slots[i].state != stateIdle {
			return false
		}
	}
	return true
}

// OnReq takes a request packet. The header is parsed, and End.Names has accepted the packet.
// A single-packet request stays in the packet's memory; the owner calls Unborrow before that
// memory ends.
func (s *Server) OnReq(h *wire.Header, data []byte, in *Arrival, out *Out) {
	i := uint8(h.ReqNum & uint64(len(s.slots)-1))
	sl := &s.slots[i]
	if h.ReqNum == sl.reqNum && h.Flags.Cut() != sl.cut && sl.state != stateIdle &&
		!s.recount(sl, h, in.Now, out) {
		return
	}
	switch {
	case h.ReqNum > sl.reqNum || sl.state == stateIdle && h.ReqNum == sl.reqNum:
		if !s.startRequest(i, sl, h, in, out) {
			return
		}
	case h.ReqNum < sl.reqNum:
		s.past(sl, h, in.Now, out)
		return
	case sl.state == stateResponded && sl.isError:
		if s.mayRepeat(sl, h, 1, in.Now) {
			s.stats.Retransmits++
			s.stats.Reanswers++
			s.sendError(sl, h.PktNum, in.Now, out)
		}
		return
	case h.MsgSize != sl.msgSize || h.ReqType != sl.reqType || h.PktNum >= sl.numReq:
		s.stats.DropSize++
		return
	case h.PktNum < sl.numRx:
		s.onRepeat(sl, h, in, out)
		return
	}
	if h.PktNum > sl.numRx {
		s.onAhead(sl, h, data, in.Now, out)
		return
	}
	if len(data) != payload(int(sl.msgSize), int(sl.per), h.PktNum) {
		s.stats.DropSize++
		return
	}
	sl.numRx++
	sl.ce = in.CE
	if sl.numReq == 1 {
		s.view, s.viewSlot = data, i
	} else if !s.take(sl, h, data, in, out) {
		return
	}
	sl.try = h.Hold
	sl.rxAt = in.Now.Add(-in.Unseen)
	sl.state = stateHandling
	s.running++
	out.add(EventRequest).Slot = i
}

// startRequest prepares the slot for a new request, of which h is some packet. It
// returns false if the packet is dropped or the request refused.
func (s *Server) startRequest(
	i uint8, sl *serverSlot, h *wire.Header, in *Arrival, out *Out,
) bool {
	per := s.PerPacket
	if cut := h.Flags.Cut(); cut|s.cut != 0 {
		per = s.resize(cut)
	}
	if per == 0 || h.ReqNum-sl.reqNum > maxSkip*uint64(len(s.slots)) {
		s.stats.DropFuture++
		return false
	}
	if sl.state == stateHandling {
		s.busy(i, sl, h, in, out)
		return false
	}
	if sl.rare != nil && h.ReqNum <= sl.rare.endedTo {
		s.past(sl, h, in.Now, out)
		return false
	}
	if h.PktNum != 0 {
		s.stats.DropFuture++
		if h.PktNum&(h.PktNum-1) == 0 {
			s.gap(sl, h, 0, in.Now, out)
		}
		return false
	}
	s.clear(sl, out)
	sl.reqNum, sl.reqType, sl.msgSize = h.ReqNum, h.ReqType, h.MsgSize
	sl.cut, sl.per = h.Flags.Cut(), uint32(per)
	sl.numReq = packets(int(sl.msgSize), per)
	sl.numRx, sl.numResp, sl.nextRFR = 0, 0, 0
	sl.isError, sl.waits, sl.late, sl.gone = false, false, false, false
	sl.why = Granted
	sl.deadline = 0
	if left, ok := wire.Remaining(h.Hold); ok {
		sl.deadline = in.Now.Add(left) // the way here counts as none: never before the client's
	}
	sl.repeats, sl.again = 0, 0
	sl.forgetAhead()
	sl.ce = in.CE
	sl.rxAt = in.Now.Add(-in.Unseen)
	sl.state = stateReceiving
	if code := s.refuse[h.ReqType]; code != wire.CodeOK {
		s.respondError(sl, codeError(code), in.Now, out)
		return false
	}
	if int(sl.msgSize) > s.MaxMessage || sl.numReq > s.maxPackets() {
		s.respondError(sl, codeError(wire.CodeTooLarge), in.Now, out)
		return false
	}
	return true
}

// take copies the next packet of a request of several. It reports whether that was the last one.
func (s *Server) take(sl *serverSlot, h *wire.Header, data []byte, in *Arrival, out *Out) bool {
	at := int(h.PktNum) * int(sl.per)
	if !s.fit(sl, at+len(data), in, out) {
		return false
	}
	copy(sl.req.Bytes()[at:], data)
	if r := sl.rare; r != nil && r.ahead.n > 0 {
		s.passAhead(sl, h, in, out)
		if sl.numRx < sl.numReq {
			return false
		}
	} else if sl.numRx < sl.numReq {
		if h.Flags&wire.FlagQuiet == 0 || in.CE {
			s.sendCR(h, in.Unseen, in.CE, out)
		}
		return false
	}
	s.complete(sl)
	return true
}

// onRepeat answers a request packet that was received before.
func (s *Server) onRepeat(sl *serverSlot, h *wire.Header, in *Arrival, out *Out) {
	last := h.PktNum == sl.numReq-1
	if last && sl.state != stateResponded {
		s.wait(sl, h, in, out)
		return
	}
	if !s.mayRepeat(sl, h, 1, in.Now) {
		return
	}
	s.stats.Retransmits++
	s.stats.Reanswers++
	sl.watched().note(in.Now)
	if !last {
		s.sendCR(h, in.Unseen, in.CE, out)
		return
	}
	sl.rxAt = in.Now.Add(-in.Unseen)
	sl.ce = in.CE
	s.sendResp(sl, 0, in.Now, in.Unseen, out)
}

// repeatTimes is how often the packets of a request, or a window of them, are answered again in a
// span. More than repeatsAll packets are answered again once.
const (
	repeatTimes = 4
	repeatsAll  = 512
)

// mayRepeat reports whether packet h of a slot, which asks for n packets that were sent before, is
// answered again, and counts them. A client repeats a packet after its least timeout, and then with
// another try. So in a quarter of that time the same packet is answered once, and all repeats of a
// slot no more often than a few times what the client can be waiting for. A client that
// repeats more gets nothing for it.
func (s *Server) mayRepeat(sl *serverSlot, h *wire.Header, n uint32, now monotime.Time) bool {
	if now.Sub(sl.repeatAt) >= s.repeatSpan {
		sl.repeatAt, sl.repeats, sl.again = now, 0, 0
	}
	same := 1<<31 | h.PktNum<<10 | uint32(h.Type)<<6 | uint32(wire.Try(h.Hold))
	most := max(1, min(uint32(s.Credits), sl.numReq+sl.numResp))
	limit := min(repeatTimes*most, max(most, repeatsAll))
	if same == sl.again || sl.repeats >= limit {
		s.stats.DropRepeat++
		return false
	}
	sl.again = same
	sl.repeats += n
	return true
}

// onAhead takes a request packet that has come though earlier ones are missing. It is kept, if the
// request's buffer has room for it already, and the client is told.
func (s *Server) onAhead(
	sl *serverSlot, h *wire.Header, data []byte, now monotime.Time, out *Out,
) {
	at := int(h.PktNum) * int(sl.per)
	if len(data) != payload(int(sl.msgSize), int(sl.per), h.PktNum) {
		s.stats.DropSize++
		return
	}
	first := false
	if sl.req == nil || at+len(data) > sl.req.Size() || h.PktNum-sl.numRx >= maxAhead ||
		!sl.more().ahead.add(h.PktNum) {
		s.stats.DropFuture++
	} else {
		copy(sl.req.Bytes()[at:], data)
		sl.watched().note(now)
		first = sl.rare.ahead.n == 1
	}
	if d := h.PktNum - sl.numRx; first || d&(d-1) == 0 {
		s.gap(sl, h, sl.numRx, now, out)
	}
}

// passAhead counts the packets that have come ahead of the one at hand, which filled a hole, and
// tells the client of the next hole, if there is one.
func (s *Server) passAhead(sl *serverSlot, h *wire.Header, in *Arrival, out *Out) {
	b := &sl.rare.ahead
	last := sl.numRx
	sl.numRx = b.pass(sl.numRx)
	switch {
	case sl.numRx == sl.numReq:
	case sl.numRx > last && b.n > 0:
		s.gap(sl, h, sl.numRx, in.Now, out)
	case sl.numRx > last:
		jump := *h
		jump.PktNum = sl.numRx - 1
		s.sendCR(&jump, unknownHold, in.CE, out)
	case h.Flags&wire.FlagQuiet == 0 || in.CE:
		s.sendCR(h, in.Unseen, in.CE, out)
	}
}

// unknownHold is more than a CR can say.
const unknownHold = time.Hour

// forgetAhead forgets which packets have come ahead of others.
func (sl *serverSlot) forgetAhead() {
	if sl.rare != nil && sl.rare.ahead.n > 0 {
		sl.rare.ahead = scoreboard{}
	}
}

// sendCR answers packet h of a request, which was unseen for a time.
func (s *Server) sendCR(h *wire.Header, unseen time.Duration, ce bool, out *Out) {
	cr := wire.Header{
		Type: wire.TypeCR, ReqType: s.echo(h.ReqType), Hold: wire.TryHold(h.Hold, unseen),
		ReqNum: h.ReqNum, PktNum: h.PktNum, Flags: h.Flags.Cut().Flags(),
	}
	if ce {
		cr.Flags |= wire.FlagCE
	}
	s.sendControl(out, &cr)
	out.answer(true, s.Checksum)
}

// gap tells the client that packet missing has not come, and a later one has; h is the packet at
// hand. Each of the packets behind a lost one says the same, so only those at distances 1, 2, 4, 8
// ... do, and the first that is kept.
func (s *Server) gap(
	sl *serverSlot, h *wire.Header, missing uint32, now monotime.Time, out *Out,
) {
	if !s.mayRepeat(sl, h, 1, now) {
		return
	}
	s.stats.Gaps++
	cr := wire.Header{
		Type: wire.TypeCR, Flags: wire.FlagGap | h.Flags.Cut().Flags(), ReqType: s.echo(h.ReqType),
		Hold:   wire.TryHold(h.Hold, 0),
		ReqNum: h.ReqNum, PktNum: missing,
	}
	n := uint32(0)
	if r := sl.rare; r != nil && s.Version != wire.OldVersion && h.Type == wire.TypeReq {
		n = r.ahead.hole(missing)
	}
	if n == 0 {
		s.sendControl(out, &cr)
		return
	}
	var body [holeBytes]byte
	cr.MsgSize = holeBytes
	head := out.grab(wire.HeaderSize + holeBytes)
	copy(head[wire.HeaderSize:], wire.AppendHole(body[:0], missing, n))
	s.send(out, &cr, head, nil)
}

// holeBytes is the size of a list of one hole.
const holeBytes = 4

// OnRFR takes a request for response packets.
func (s *Server) OnRFR(h *wire.Header, in *Arrival, out *Out) {
	sl := &s.slots[h.ReqNum&uint64(len(s.slots)-1)]
	pkt := h.PktNum
	if h.ReqNum == sl.reqNum && h.Flags.Cut() != sl.cut && sl.state == stateResponded &&
		!s.recount(sl, h, in.Now, out) {
		return
	}
	switch {
	case h.MsgSize >= uint32(s.stride()):
		s.stats.DropSize++
	case h.ReqNum < sl.reqNum:
		s.past(sl, h, in.Now, out)
	case h.ReqNum > sl.reqNum || sl.state != stateResponded || sl.isError && sl.why != ResponseGone:
		s.stats.DropFuture++
	case sl.isError:
		if s.mayRepeat(sl, h, 1, in.Now) {
			s.stats.Retransmits++
			s.stats.Reanswers++
			s.sendError(sl, pkt, in.Now, out)
		}
	case pkt < sl.numReq || pkt+h.MsgSize >= sl.numReq+sl.numResp-1:
		s.stats.DropSize++
	case pkt-(sl.numReq-1) > sl.nextRFR:
		s.stats.DropFuture++
		if d := pkt - (sl.numReq - 1) - sl.nextRFR; d&(d-1) == 0 {
			s.gap(sl, h, sl.numReq-1+sl.nextRFR, in.Now, out)
		}
	default:
		first, end := pkt-(sl.numReq-1), pkt-(sl.numReq-1)+h.MsgSize
		if first < sl.nextRFR {
			again := min(end+1, sl.nextRFR) - first
			if !s.mayRepeat(sl, h, again, in.Now) {
				return
			}
			s.stats.Retransmits += uint64(again)
			s.stats.Reanswers += uint64(again)
		}
		sl.watched().note(in.Now)
		sl.nextRFR = max(sl.nextRFR, end+1)
		if sl.late {
			s.stopLate(sl)
		}
		sl.try = h.Hold
		sl.ce = in.CE
		for j := first; j <= end; j++ {
			s.sendResp(sl, j, in.Now, in.Unseen, out)
		}
	}
}

// rareSlot holds state that few slots need.
type rareSlot struct {
	endedTo uint64 // numbers up to this one were given up before they came
	// Of an answer to a request that waited:
	since monotime.Time // when it was sent first
	at    monotime.Time // when it is sent again
	tries uint8

	ahead scoreboard // of request packets
	held  held       // of a slot whose memory waits for its client
	made  int        // bytes of buffers that the handler has for its response, which count; see Make
	// The buffer of Reserve, until the handler takes it. It is among made.
	reserve *msgbuf.Buffer
}

// holds reports whether there is something to give back.
func (r *rareSlot) holds() bool {
	return r.held.sv != nil || r.made != 0 || r.reserve != nil
}

// more returns what few slots need.
func (sl *serverSlot) more() *rareSlot {
	if sl.rare == nil {
		sl.rare = new(rareSlot)
	}
	return sl.rare
}

// Deadline returns when the client gives up the slot's request, 0 if it did not say.
func (s *Server) Deadline(slot uint8) monotime.Time { return s.slots[slot].deadline }

// Cancelled reports whether the client gave up request reqNum in slot, whose handler has not
// responded yet.
func (s *Server) Cancelled(slot uint8, reqNum uint64) bool {
	sl := &s.slots[slot]
	return sl.state == stateHandling && sl.reqNum == reqNum && sl.gone
}

// past tells the client that its slot has seen the number of packet h, or a newer one.
func (s *Server) past(sl *serverSlot, h *wire.Header, now monotime.Time, out *Out) {
	if sl.reqNum == noNewer || !s.mayRepeat(sl, h, 1, now) {
		s.stats.DropPast++
		return
	}
	s.stats.Pasts++
	s.sendControl(out, &wire.Header{
		Type: wire.TypePast, ReqType: s.echo(h.ReqType),
		Hold:   wire.TryBusy(h.Hold, sl.gone && sl.state == stateHandling),
		ReqNum: h.ReqNum, PktNum: h.PktNum,
	})
}

// OnCancel takes the client's word that it gave a request up: a hint that may be early or late.
// An answer that waits for the client is dropped; a number that has not come yet never runs.
func (s *Server) OnCancel(h *wire.Header, in *Arrival, out *Out) {
	i := uint8(h.ReqNum & uint64(len(s.slots)-1))
	sl := &s.slots[i]
	switch {
	case h.ReqNum < sl.reqNum:
	case h.ReqNum-sl.reqNum > maxSkip*uint64(len(s.slots)):
		s.stats.DropFuture++
		return
	case sl.state == stateHandling:
		s.leave(i, sl, out)
		if h.ReqNum > sl.reqNum {
			r := sl.more()
			r.endedTo = max(r.endedTo, h.ReqNum)
		}
	case h.ReqNum > sl.reqNum || sl.state == stateIdle || !sl.isError:
		s.stats.Cancels++
		ran := sl.state == stateResponded && h.ReqNum == sl.reqNum
		s.clear(sl, out)
		sl.reqNum, sl.reqType = h.ReqNum, h.ReqType
		s.endAs(sl, ran)
	case sl.late:
		s.stopLate(sl)
	}
	s.past(sl, h, in.Now, out)
}

// endAs makes the slot's request one that ended without anybody to answer.
func (s *Server) endAs(sl *serverSlot, ran bool) {
	sl.state, sl.isError = stateResponded, true
	sl.code, sl.status, sl.ran = wire.CodeCancelled, wire.StatusCancelled, ran
	sl.why = Granted
	sl.waits, sl.gone = false, false
}

// leave notes that the client gave up the slot's request, whose handler runs. It is told, and
// keeps the slot and the request's memory until it responds.
func (s *Server) leave(i uint8, sl *serverSlot, out *Out) {
	if sl.gone {
		return
	}
	s.stats.Cancels++
	sl.gone = true
	ev := out.add(EventCancelled)
	ev.Session, ev.Slot = s.Local, i
}

// endGone ends a request that the client gave up, now that its handler responds. The client, for
// which the slot is in use, learns that it is free; if that is lost it asks.
func (s *Server) endGone(sl *serverSlot, out *Out) {
	s.responded(sl)
	if sl.waits {
		s.waiting--
	}
	s.endAs(sl, true)
	s.stats.Pasts++
	s.sendControl(out, &wire.Header{
		Type: wire.TypePast, ReqType: s.echo(sl.reqType), ReqNum: sl.reqNum,
	})
}

// busy takes a packet of a newer request whose slot's handler still runs: the client gave the
// older one up. The new one has to come again.
func (s *Server) busy(i uint8, sl *serverSlot, h *wire.Header, in *Arrival, out *Out) {
	s.stats.DropBusy++
	s.leave(i, sl, out)
	if s.mayRepeat(sl, h, 1, in.Now) {
		s.sayWait(h, wire.FlagKeep, in, out)
	}
}

// wait takes a repeat of the last packet of a request whose handler has not responded. The client
// is told that it waits, and does not repeat the request any more; the answer is repeated until it
// is acknowledged. So that answers without credits do not flood a client, it agreed on how many of
// its requests may wait like this. The others keep their credits.
func (s *Server) wait(sl *serverSlot, h *wire.Header, in *Arrival, out *Out) {
	if !s.mayRepeat(sl, h, 1, in.Now) {
		return
	}
	s.sayWait(h, s.enterWait(sl), in, out)
}

// enterWait makes the slot one that waits, and returns the flags that tell the client so.
func (s *Server) enterWait(sl *serverSlot) wire.Flags {
	if !sl.waits {
		if s.waiting >= s.Waiting {
			return wire.FlagKeep
		}
		sl.waits = true
		s.waiting++
	}
	return 0
}

func (s *Server) sayWait(h *wire.Header, flags wire.Flags, in *Arrival, out *Out) {
	s.stats.Waits++
	w := wire.Header{
		Type: wire.TypeWait, Flags: flags | h.Flags.Cut().Flags(), ReqType: s.echo(h.ReqType),
		Hold: wire.TryHold(h.Hold, in.Unseen), ReqNum: h.ReqNum, PktNum: h.PktNum,
	}
	if in.CE {
		w.Flags |= wire.FlagCE
	}
	s.sendControl(out, &w)
	out.answer(true, s.Checksum)
}

// Wait tells the client that the slot's handler will wait, before it asks. ErrNotHandling means
// that no request does.
func (s *Server) Wait(slot uint8, now monotime.Time, out *Out) error {
	sl := &s.slots[slot]
	if sl.state != stateHandling {
		return ErrNotHandling
	}
	if sl.gone || sl.waits {
		return nil
	}
	if flags := s.enterWait(sl); flags == 0 {
		h := wire.Header{
			Flags: sl.cut.Flags(), ReqType: sl.reqType, ReqNum: sl.reqNum,
			PktNum: sl.numReq - 1, Hold: wire.TryHold(sl.try, 0),
		}
		s.sayWait(&h, 0, &Arrival{Now: now, Unseen: now.Sub(sl.rxAt)}, out)
	}
	return nil
}

// startLate makes the answer to a request that waited one that is repeated.
func (s *Server) startLate(sl *serverSlot, now monotime.Time, out *Out) {
	sl.waits = false
	s.waiting--
	sl.late = true
	r := sl.more()
	r.since, r.at, r.tries = now, now.Add(s.rtt.timeout(0)), 0
	if s.lates++; s.lates == 1 {
		out.add(EventLate).Session = s.Local
	}
}

func (s *Server) stopLate(sl *serverSlot) {
	sl.late = false
	s.lates--
}

// Repeat sends late answers again that are due, and returns how many are not acknowledged. After
// FailureTimeout an answer is not repeated any more: the client asks for it.
func (s *Server) Repeat(now monotime.Time, out *Out) (left int) {
	for i := range s.slots {
		sl := &s.slots[i]
		if s.lates == 0 {
			break
		}
		l := sl.rare
		if !sl.late || now < l.at {
			continue
		}
		if now.Sub(l.since) >= s.lateFor {
			s.stopLate(sl)
			sl.watched().note(now)
			continue
		}
		l.tries = min(l.tries+1, 254)
		l.at = now.Add(s.rtt.timeout(l.tries))
		s.stats.Lates++
		if sl.isError {
			s.sendError(sl, sl.numReq-1, now, out)
		} else {
			s.sendResp(sl, 0, now, 0, out)
		}
	}
	return s.lates
}

// OnAck takes the client's word that a late answer has come, or the last packet of a response of
// several: that is not kept any more.
func (s *Server) OnAck(h *wire.Header, in *Arrival, out *Out) {
	sl := &s.slots[h.ReqNum&uint64(len(s.slots)-1)]
	if h.ReqNum == sl.reqNum && sl.resp != nil && !sl.isError && sl.numResp > 1 &&
		h.PktNum == sl.numReq+sl.numResp-2 && sl.nextRFR == sl.numResp {
		s.forgetResponse(sl, out)
		return
	}
	if h.ReqNum != sl.reqNum || !sl.late {
		s.stats.DropPast++
		return
	}
	sl.watched().note(in.Now)
	if l := sl.rare; l.tries == 0 {
		s.rtt.sample(max(in.Now.Sub(l.since)-in.Unseen, time.Microsecond))
	}
	s.stopLate(sl)
}

// resize takes the cut of a request that begins, and returns how many data bytes its packets have;
// 0 if the session has no such packets. The client may have found that its path carries larger
// packets again.
//
//go:noinline
func (s *Server) resize(cut wire.Cut) int {
	per := s.perCut(cut)
	if per == 0 {
		return 0
	}
	if cut < s.cut {
		s.widen(per + wire.HeaderSize)
	} else {
		s.narrow(cut)
	}
	s.cut = cut
	return per
}

// recount takes a packet of the slot's request that is counted in another cut. A smaller one makes
// what is not complete start over; what is complete stays, in more packets. It returns false if the
// packet is old, or its cut not one of the session's.
func (s *Server) recount(sl *serverSlot, h *wire.Header, now monotime.Time, out *Out) bool {
	cut := h.Flags.Cut()
	per := s.perCut(cut)
	if cut < sl.cut || per == 0 {
		s.stats.DropPast++
		return false
	}
	s.stats.Recounts++
	s.narrow(cut)
	s.cut = max(s.cut, cut)
	sl.cut, sl.per = cut, uint32(per)
	sl.numReq = packets(int(sl.msgSize), per)
	sl.repeats, sl.again = 0, 0
	sl.forgetAhead()
	if sl.state == stateReceiving {
		sl.numRx = 0
	} else {
		sl.numRx = sl.numReq
	}
	if sl.resp != nil && !sl.isError {
		sl.numResp, sl.nextRFR = packets(sl.resp.Size(), per), 1
	}
	if sl.numReq+max(sl.numResp, 1)-1 <= s.maxPackets() {
		return true
	}
	e := codeError(wire.CodeTooLarge)
	e.Ran = sl.state != stateReceiving
	s.replace(sl, e, now, out)
	return false
}

// replace answers a request with an error in place of what its handler responds, or has responded.
func (s *Server) replace(sl *serverSlot, e *wire.Error, now monotime.Time, out *Out) {
	if sl.state == stateHandling {
		return // its response is too large, and refused then
	}
	s.clear(sl, out)
	s.respondError(sl, e, now, out)
}

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
		c.credits += int32(s.numTx - s.numRx)
		c.release(s, uint8(i))
	}
	if c.drains && c.stalled > 0 {
		c.pump(now, out) // those that were taken go on
	}
}
