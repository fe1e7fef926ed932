package erpc

import (
	"errors"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// settle acts on the outcomes that sessions have left, one after the other. Outcomes that callbacks
// of the application cause are put behind them. A callback may call settle: that call acts on the
// rest.
func (r *Rpc) settle() {
	if r.engine.Out.Pending() {
		r.settleAll()
	}
}

// settleAll is settle if there are outcomes.
func (r *Rpc) settleAll() {
	out := r.engine.Out
	for {
		ev := out.Next()
		if ev == nil {
			return
		}
		if ev.Kind == session.EventRequest {
			r.dispatch(r.engine.Hand(), ev.Slot) // only a packet completes a request
		} else if ev.Kind == session.EventDone {
			if ev.RTT > 0 {
				r.stats.RTT.Add(int64(ev.RTT))
			}
			ref := ev.Ref
			if ref&session.Marked != 0 {
				ref = r.traceEnd(ref, ev.Resp, nil, ev.RTT)
			}
			r.complete(ref, ev.Resp, nil)
		} else {
			r.settleRare(ev)
		}
		if !out.Pending() {
			return
		}
	}
}

// settleRare acts on an outcome that is not one of a small RPC.
//
//go:noinline
func (r *Rpc) settleRare(ev *session.Event) {
	switch ev.Kind {
	case session.EventError:
		r.fail(ev.Ref, receivedError(ev.Fault))
	case session.EventProgress:
		if ev.RTT > 0 {
			r.stats.RTT.Add(int64(ev.RTT))
		}
	case session.EventFailed:
		r.fail(ev.Ref, engine.OwnError(ev.Err))
	case session.EventFlush:
		r.drain()
	case session.EventSent, session.EventAnswered:
		r.meter.mark(ev, r.engine.Now())
	case session.EventPace, session.EventLate, session.EventBroken:
		r.engine.Settle(ev)
	default:
		r.settleSession(r.engine.Conn(ev.Session), ev)
	}
}

// settleSession acts on what became of a session.
func (r *Rpc) settleSession(c *engine.Conn, ev *session.Event) {
	s := sessionOf(c)
	switch ev.Kind {
	case session.EventOpened:
		r.notify(s, SessionConnected)
	case session.EventDraining:
		r.notify(s, SessionDraining)
	case session.EventSpent:
		r.spent(s)
	case session.EventFreed:
		r.freed(s)
	case session.EventSilent:
		if l := s.ofClient; l != nil && l.client.member != nil {
			l.client.member.quiet(l)
		}
	case session.EventUnreachable:
		if l := s.ofClient; l != nil {
			l.client.unreachable()
		}
	case session.EventCancelled:
		c.Owner.(*serverEnd).jobs.cancel(ev.Slot)
	case session.EventClosed:
		r.ended(s)
	}
}

// ended follows the end of a session, when all that its requests led to has been acted on.
func (r *Rpc) ended(s *Session) {
	if end, ok := s.conn.Owner.(*serverEnd); ok {
		end.jobs.cancelAll()
	}
	fate := SessionEvent(r.engine.Ended(&s.conn))
	if fate != SessionClosed && !s.conn.Hidden() {
		r.cfg.Logger.Info("session ended",
			"peer", s.conn.End.Peer.String(), "event", fate.String(), "error", s.Err())
	}
	r.notify(s, fate)
}

// freed is called when the server has ended a request that this side had given up: the slot is free
// again.
func (r *Rpc) freed(s *Session) {
	r.engine.Deactivate(&s.conn)
	if s.ofClient != nil {
		s.ofClient.client.freed(s.ofClient)
	}
}

// spent is called after the last request of a client session, which has no request numbers left.
func (r *Rpc) spent(s *Session) {
	if s.ofClient != nil {
		s.ofClient.client.retire(s.ofClient)
	} else {
		r.notify(s, SessionDraining)
	}
}

// notify tells the application about a session.
func (r *Rpc) notify(s *Session, ev SessionEvent) {
	if r.cfg.OnSession != nil && !s.conn.Hidden() {
		r.cfg.OnSession(r, s, ev)
	}
}

// fail ends the request that a session knows as ref.
func (r *Rpc) fail(ref uint32, err error) {
	if ref&session.Marked != 0 {
		ref = r.traceEnd(ref, nil, err, 0)
	}
	r.complete(ref, nil, err)
}

// dispatch gives the complete request in slot to its handler.
func (r *Rpc) dispatch(c *engine.Conn, slot uint8) {
	s := c.Owner.(*serverEnd)
	typ, num, data := s.half.Request(slot)
	entry := &r.nexus.handlers[typ]
	h := ReqHandle{s: s, reqNum: num, bits: uint64(slot)<<slotShift | uint64(typ)}
	if r.cfg.AuthorizeRequest != nil && !r.authorized(h) {
		return
	}
	if entry.most != 0 && !r.admit(h, entry) {
		return
	}
	r.stats.RequestsServed++
	if entry.mode != Dispatch {
		if entry.mode == Background {
			r.background(h, entry)
		} else {
			r.join(h, entry.batch)
		}
		return
	}
	exposed := c.Shared && len(data)+wire.HeaderSize > transport.PrivateBytes
	if (exposed || r.cfg.Experiment.NoZeroCopy) && s.half.Unborrow(slot) != nil {
		h.refuse(ReasonExhausted, "no memory for the request")
		return
	}
	if r.meter != nil && r.meter.sampler.due(typ) {
		r.timeHandler(entry.fn, h)
	} else {
		entry.fn(h)
	}
	if c.Open() && s.half.Handling(slot, num) {
		if err := s.half.Unborrow(slot); err != nil {
			_ = h.fail(ReasonExhausted, "no memory for the request")
		}
	}
}

// authorized reports whether the peer may have a handler run for a request. If not, it is answered.
//
//go:noinline
func (r *Rpc) authorized(h ReqHandle) bool {
	err := r.cfg.AuthorizeRequest(h.State(), h.Type())
	if err == nil {
		return h.s.conn.Open() // it may have ended the session
	}
	r.stats.RequestsDenied++
	f := faultOf(ReasonDenied, err.Error())
	f.Status = CodePermissionDenied.wire()
	var e *Error
	if errors.As(err, &e) {
		f.Details = e.Details
	}
	_ = h.respondError(f)
	return false
}

// refuseNew answers new sessions and requests with "shutting down" from now on.
func (r *Rpc) refuseNew() {
	for t := range r.refusals {
		r.refusals[t] = wire.CodeShutdown
	}
	r.engine.RefuseNew()
}

// running returns how many requests, of all sessions, have handlers that have not responded.
func (r *Rpc) running() int { return r.engine.Running() + r.jobs.running }
