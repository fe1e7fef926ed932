package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// rareSlot holds state that few slots need.
type rareSlot struct {
	endedTo uint64 // numbers up to this one were given up before they came
	// Of an answer to a request that waited:
	since monotime.Time // when it was sent first
	at    monotime.Time // when it is sent again
	tries uint8

	held held // of a slot whose memory waits for its client
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

// OnAck takes the client's word that a late answer has come.
func (s *Server) OnAck(h *wire.Header, in *Arrival) {
	sl := &s.slots[h.ReqNum&uint64(len(s.slots)-1)]
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
	sl.cut, sl.per = cut, uint32(per)
	sl.numReq = packets(int(sl.msgSize), per)
	sl.repeats, sl.again = 0, 0
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
