package erpc

import (
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// port is all that the engine asks of the loop around it. None of it is called for a packet of
// the common case.
type port interface {
	// drain sends the TX batch and returns when the transport refers to no buffer.
	drain()
	// readClock returns the time.
	readClock() monotime.Time
	// pathTo describes the way to a peer.
	pathTo(to transport.Addr) transport.Path
	// isPrivate returns Private of the way to a peer, at once.
	isPrivate(from transport.Addr) bool
	// hints returns what the network says about packets sent earlier, until the next call.
	hints() []transport.Hint
	// handOver gives a copy of a packet to another loop of the endpoint's address. It reports
	// whether there is such a loop, and whether that had room.
	handOver(loop uint8, p *transport.RxPacket) (runs, took bool)
}

// engine is the endpoint without I/O. Events come in by methods: a packet, a request, a
// cancellation, a tick. Sessions put into out what follows: packets to send, and outcomes. These
// methods never call the application; settle does, when it acts on the outcomes.
//
// Each part owns its state and has a file: sessions by number, remote endpoints, quotas of
// addresses, sessions that open or close, requests under way, background requests, timers, paths.
type engine struct {
	port     port
	owner    *Rpc // callbacks get it; the engine uses nothing of it
	cfg      *Config
	handlers *[wire.MaxReqType + 1]handlerEntry
	timeAt   uint64         // from that many requests served on, the next inline handler is timed
	refusals [256]wire.Code // per request type: why it is refused
	pool     *msgbuf.Pool
	rng      *rand.Rand
	group    *group // the loops of the address; nil if there is one

	in   session.Arrival // of the packet at hand; in.Now is the time of the pass
	hand *Session        // its session
	out  *session.Out

	sealing  bool              // packets are sealed
	security *endpointSecurity // nil if they are not

	table      sessionTable
	quotas     quotaTable
	assocs     assocTable
	handshakes handshakes
	calls      callTable
	jobs       jobTable
	timers     timers
	paths      paths
	ahead      []*Session // of prefetch

	// Work for other goroutines since they were last let run: requests for handlers, and
	// calls that have ended.
	handed int

	recorder *flight.Ring  // the last datagrams; nil if they are not recorded
	leaving  monotime.Time // when the TX batch was made ready; for the recorder
	meter    *meter        // counts by request type; nil until somebody asks for a snapshot

	batches     batchTable
	after       callTimers
	recordLayer recordLayer
	notices     []*Session // clients that have not acknowledged that this side shuts down

	refusing bool // shutting down: no new sessions or requests
	closing  bool // in Rpc.Close: nobody would end the requests of a session made now
	stats    Stats
	proto    session.Stats

	head [wire.HeaderSize]byte // of a packet that its sender can still change
}

// From coldSessions sessions on, state is prefetched for the whole burst.
const coldSessions = 256

// prefetch asks for the sessions of a burst, and then for what they point to, before any
// packet is looked at, so that their cache misses overlap.
func (e *engine) prefetch(pkts []transport.RxPacket) {
	e.ahead = e.ahead[:0]
	for i := range pkts {
		if p := pkts[i].Data; wire.IsBundle(p) {
			if !pkts[i].Shared {
				e.prefetchBundle(p)
			}
		} else if n, ok := wire.SessionOf(p); ok {
			e.prefetchSession(n)
		}
	}
	for step := range session.PrefetchSteps {
		for _, s := range e.ahead {
			if s.sv != nil {
				s.sv.Prefetch(step)
			}
		}
	}
}

// prefetchSession is the first step of prefetch for a session.
func (e *engine) prefetchSession(number uint32) {
	if s := e.table.at(number); s != nil {
		sys.Prefetch(&s.live, hotSession+session.ClientHot)
		e.ahead = append(e.ahead, s)
	}
}

// onPacket takes one received packet, which an association has opened; 0 for one in the clear.
func (e *engine) onPacket(p *transport.RxPacket, via uint32) {
	if e.cfg.Experiment.NoBatchedTime {
		e.in.Now = e.port.readClock()
	}
	head := p.Data
	if p.Shared {
		head = e.headOf(p)
	}
	var h wire.Header
	if err := h.ParseCut(head, len(p.Data)); err != nil {
		e.stats.DropMalformed++
		if err == wire.ErrVersion && !p.Shared {
			e.onOtherVersion(p)
		}
		return
	}
	if h.Type == wire.TypeMgmt {
		e.onMgmt(&h, p, via)
		return
	}
	s := e.table.at(h.Session)
	if s == nil {
		e.unknown(h.Session, p, via)
		return
	}
	if s.state != sessConnected || h.Version != s.end.Version ||
		!s.end.Names(s.end.TokenIn(p.Data), &p.From, via) {
		e.stats.DropToken++
		return
	}
	s.assoc.watch.Heard(e.in.Now)
	e.in.CE = p.CE
	e.handle(s, &h, p.Data[wire.HeaderSize:])
}

// headOf returns a copy of the header of a packet that its sender can still change, so that what
// was checked stays true. A management packet is copied whole. The rest of other packets is read
// once, or copied before a handler sees it.
//
//go:noinline
func (e *engine) headOf(p *transport.RxPacket) []byte {
	n := copy(e.head[:], p.Data)
	if wire.Type(e.head[0]&0x0F) != wire.TypeMgmt {
		return e.head[:n]
	}
	e.recordLayer.own(p)
	return p.Data
}

// handle takes a packet of a session.
func (e *engine) handle(s *Session, h *wire.Header, payload []byte) {
	s.live.Heard(e.in.Now)
	e.hand = s
	switch {
	case s.sv != nil && h.Type == wire.TypeReq:
		s.sv.OnReq(h, payload, &e.in, e.out)
	case s.sv != nil && h.Type == wire.TypeRFR:
		s.sv.OnRFR(h, &e.in, e.out)
	case s.cl != nil && h.Type == wire.TypeResp:
		s.cl.OnResp(h, payload, &e.in, e.out)
	case s.cl != nil && h.Type == wire.TypeCR:
		s.cl.OnCR(h, &e.in, e.out)
	default:
		e.onRare(s, h, payload)
	}
}

// onRare takes a packet of a session that is not of the common case.
//
//go:noinline
func (e *engine) onRare(s *Session, h *wire.Header, payload []byte) {
	switch {
	case s.cl != nil && h.Type == wire.TypeErr:
		s.cl.OnErr(h, payload, &e.in, e.out)
	case s.cl != nil && h.Type == wire.TypeWait:
		s.cl.OnWait(h, &e.in, e.out)
	case s.cl != nil && h.Type == wire.TypePast:
		s.cl.OnPast(h, &e.in, e.out)
	case s.sv != nil && h.Type == wire.TypeCancel:
		s.sv.OnCancel(h, &e.in, e.out)
	case s.sv != nil && h.Type == wire.TypeAck:
		s.sv.OnAck(h, &e.in)
	default:
		e.stats.DropRole++
	}
}

// settle acts on the outcomes that sessions have left, one after the other. Outcomes that callbacks
// of the application cause are put behind them. A callback may call settle: that call acts on the
// rest.
func (e *engine) settle() {
	if e.out.Pending() {
		e.settleAll()
	}
}

// settleAll is settle if there are outcomes.
func (e *engine) settleAll() {
	out := e.out
	for {
		ev := out.Next()
		if ev == nil {
			return
		}
		if ev.Kind == session.EventRequest {
			e.dispatch(e.hand, ev.Slot) // only a packet completes a request
		} else if ev.Kind == session.EventDone {
			if ev.RTT > 0 {
				e.stats.RTT.Add(int64(ev.RTT))
			}
			ref := ev.Ref
			if ref&session.Marked != 0 {
				ref = e.traceEnd(ref, ev.Resp, nil, ev.RTT)
			}
			e.complete(ref, ev.Resp, nil)
		} else {
			e.settleRare(ev)
		}
		if !out.Pending() {
			return
		}
	}
}

// settleRare acts on an outcome that is not one of a small RPC.
//
//go:noinline
func (e *engine) settleRare(ev *session.Event) {
	switch ev.Kind {
	case session.EventError:
		e.fail(ev.Ref, receivedError(ev.Fault))
	case session.EventProgress:
		if ev.RTT > 0 {
			e.stats.RTT.Add(int64(ev.RTT))
		}
	case session.EventFailed:
		e.fail(ev.Ref, ownError(ev.Err))
	case session.EventFlush:
		e.port.drain()
	case session.EventPace:
		if s := e.table.at(ev.Session); s != nil && s.state == sessConnected {
			e.timers.pace(s, e.in.Now)
		}
	case session.EventOpened:
		e.notify(e.table.at(ev.Session), SessionConnected)
	case session.EventCancelled:
		e.table.at(ev.Session).srv.jobs.cancel(ev.Slot)
	case session.EventFreed:
		e.freed(e.table.at(ev.Session))
	case session.EventSpent:
		e.spent(e.table.at(ev.Session))
	case session.EventLate:
		e.timers.late = append(e.timers.late, e.table.at(ev.Session))
	case session.EventSent, session.EventAnswered:
		e.meter.mark(ev, e.in.Now)
	case session.EventBroken:
		e.end(e.table.at(ev.Session), ownError(ev.Err), SessionLost)
	case session.EventClosed:
		e.ended(e.table.at(ev.Session))
	}
}

// freed is called when the server has ended a request that this side had given up: the slot is free
// again.
func (e *engine) freed(s *Session) {
	e.timers.deactivate(s)
	if s.ofClient != nil {
		s.ofClient.client.freed(s.ofClient)
	}
}

// spent is called after the last request of a client session, which has no request numbers left.
func (e *engine) spent(s *Session) {
	if s.ofClient != nil {
		s.ofClient.client.retire(s.ofClient)
	} else {
		e.notify(s, SessionDraining)
	}
}

// fail ends the request that a session knows as ref.
func (e *engine) fail(ref uint32, err error) {
	if ref&session.Marked != 0 {
		ref = e.traceEnd(ref, nil, err, 0)
	}
	e.complete(ref, nil, err)
}

// dispatch gives the complete request in slot to its handler.
func (e *engine) dispatch(s *Session, slot uint8) {
	typ, num, data := s.sv.Request(slot)
	entry := &e.handlers[typ]
	e.stats.RequestsServed++
	h := ReqHandle{s: s, reqNum: num, bits: uint64(slot)<<slotShift | uint64(typ)}
	if entry.mode != Dispatch {
		if entry.mode == Background {
			e.background(h, entry.fn)
		} else {
			e.join(h, entry.batch)
		}
		return
	}
	exposed := s.shared && len(data)+wire.HeaderSize > transport.PrivateBytes
	if (exposed || e.cfg.Experiment.NoZeroCopy) && s.sv.Unborrow(slot) != nil {
		h.refuse(ReasonExhausted, "no memory for the request")
		return
	}
	if e.stats.RequestsServed >= e.timeAt {
		e.timeHandler(entry.fn, h)
	} else {
		entry.fn(h)
	}
	if s.state == sessConnected && s.sv.Handling(slot, num) {
		if err := s.sv.Unborrow(slot); err != nil {
			_ = h.fail(ReasonExhausted, "no memory for the request")
		}
	}
}

// refuseNew answers new sessions and requests with "shutting down" from now on.
func (e *engine) refuseNew() {
	if e.refusing {
		return
	}
	e.refusing = true
	for t := range e.refusals {
		e.refusals[t] = wire.CodeShutdown
	}
	e.startNotices()
}

// running returns how many requests, of all sessions, have handlers that have not responded.
func (e *engine) running() int { return e.table.running() + e.jobs.running }

// notify tells the application about a session.
func (e *engine) notify(s *Session, ev SessionEvent) {
	if e.cfg.OnSession != nil && !s.hidden {
		e.cfg.OnSession(e.owner, s, ev)
	}
}
