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
	// isPrivate returns the Private of the way to a peer, at once.
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

// bundle is a received datagram with several packets, of sessions with one peer.
type bundle struct {
	wire.Bundle
	pkt    *transport.RxPacket
	via    uint32       // the association that opened it, 0 for none
	with   *association // nil until a packet has named one of its sessions
	summed bool         // the bundle's checksum is right
	begun  bool
}

// openBundle checks all of a bundle before its first packet is handled. It reports false if the
// bundle is dropped, as each is that its sender could change after it was checked.
func (e *engine) openBundle(b *bundle, p *transport.RxPacket, via uint32) bool {
	if e.cfg.Experiment.NoBatchedTime {
		e.in.Now = e.port.readClock()
	}
	if p.Shared {
		e.stats.DropBundle++
		return false
	}
	if b.Parse(p.Data) != nil {
		e.stats.DropMalformed++
		return false
	}
	b.pkt, b.via = p, via
	e.in.CE = p.CE
	return true
}

// has reports whether the packet read last, with header h, is surely one of s.
func (b *bundle) has(s *Session, h *wire.Header) bool {
	return s.assoc == b.with && s.assoc != nil && b.Token() == s.end.LocalToken && b.begun &&
		s.end.Checksum == b.summed && s.end.Version == h.Version && s.end.Bundles &&
		s.state == sessConnected
}

// residentOf returns the session of the packet in a bundle that was read last, when it is not that
// of the packet before; nil if the packet is dropped.
func (e *engine) residentOf(b *bundle, h *wire.Header) *Session {
	first := !b.begun
	b.begun = true
	s := e.table.at(h.Session)
	if s == nil {
		if !first {
			e.stats.DropNoSession++
		} else if e.unknown(h.Session, b.pkt, b.via) {
			e.stats.RxBundled--
			b.Bundle = wire.Bundle{} // all of it is for another loop
		}
		return nil
	}
	token := b.Token()
	if first {
		token = s.end.TokenIn(b.pkt.Data)
	}
	switch {
	case s.state != sessConnected || h.Version != s.end.Version ||
		!s.end.Names(token, &b.pkt.From, b.via),
		b.with != nil && s.assoc != b.with:
		e.stats.DropToken++
		return nil
	case !s.end.Bundles || !first && s.end.Checksum != b.summed:
		e.stats.DropBundle++
		return nil
	}
	if b.with == nil {
		b.with, b.summed = s.assoc, s.end.Checksum
		s.assoc.watch.Heard(e.in.Now)
	}
	return s
}

// prefetchBundle is the first step of prefetch for the sessions of a bundle.
func (e *engine) prefetchBundle(pkt []byte) {
	var b wire.Bundle
	var h wire.Header
	if b.Parse(pkt) != nil {
		return
	}
	for first := true; ; first = false {
		if _, ok := b.Next(&h); !ok {
			return
		}
		if first || b.Another() {
			e.prefetchSession(h.Session)
		}
	}
}

// unbundle takes the packets of a bundle, one after the other.
func (r *Rpc) unbundle(p *transport.RxPacket, via uint32, batch int) (int, error) {
	var (
		e   = &r.engine
		b   bundle
		h   wire.Header
		s   *Session
		err error
	)
	if !e.openBundle(&b, p, via) {
		return batch, nil
	}
	r.found-- // the datagram was counted
	for {
		payload, ok := b.Next(&h)
		if !ok {
			return batch, nil
		}
		e.stats.RxBundled++
		r.found++
		if b.Another() || !b.begun {
			if s = e.table.at(h.Session); s == nil || !b.has(s, &h) {
				s = e.residentOf(&b, &h)
			}
		}
		if s == nil || s.state != sessConnected {
			continue // it may have ended by the packet before
		}
		e.handle(s, &h, payload)
		e.settle()
		if e.out.Packets+e.batches.waiting+e.handed >= batch {
			if batch, err = r.transmitFull(batch); err != nil {
				return batch, err
			}
		}
	}
}

// recordLayer is where bursts are sealed when they leave, after everything is written in them, and
// opened when they come, before anything is read in them.
type recordLayer struct {
	overhead int      // bytes that a sealed packet is longer; 0 if nothing is sealed
	done     int      // packets at the start of Out.Tx that stay as they are
	arena    []byte   // of the sealed ones
	spare    []byte   // memory for packets that a peer could change
	by       []uint32 // of each packet of the burst: the association that opened it
}

// unsealable leaves in place of a packet whose keys are spent or gone: nobody takes it.
var unsealable [wire.HeaderSize]byte

// seal seals what was queued since the last call, in the order in which it leaves, each packet by
// the association that its session named. What names none is of the handshake, or goes to a
// process of this user.
func (e *engine) seal(tx []session.Tx) {
	s := &e.recordLayer
	need := 0
	for i := s.done; i < len(tx); i++ {
		need += len(tx[i].Head) + len(tx[i].Data) + s.overhead
	}
	if s.done == 0 {
		s.arena = s.arena[:0]
	}
	if cap(s.arena)-len(s.arena) < need {
		s.arena = make([]byte, 0, 2*need) // what is sealed already keeps the old one
	}
	var a *association
	for i := s.done; i < len(tx); i++ {
		t := &tx[i]
		if t.Via == 0 {
			if !isClear(t.Head) && !e.trustsAddr(t.Dst) {
				t.Head, t.Data = unsealable[:], nil // nothing leaves in the clear
			}
			continue
		}
		if a == nil || a.field != t.Via {
			a = e.assocs.find(t.Via)
		}
		start, ok := len(s.arena), false
		if a != nil && a.keys != nil {
			s.arena, ok = a.keys.Seal(s.arena, t.Head, t.Data)
		}
		if !ok {
			t.Head, t.Data = unsealable[:], nil
			continue
		}
		t.Head, t.Data = s.arena[start:len(s.arena):len(s.arena)], nil
		if a.sent != nil {
			a.sent.note(t.Head)
		}
	}
	s.done = len(tx)
}

// kept notes that the last n packets stay in the queue: they leave byte for byte as they are.
func (s *recordLayer) kept(n int) { s.done = n }

// clearOps are the operations that travel in the clear between endpoints that demand security.
const clearOps = 1<<wire.OpConnect | 1<<wire.OpChallenge | 1<<wire.OpRefuse | 1<<wire.OpCrypto |
	1<<wire.OpNoKeys

// isClear reports whether a packet is one of those, or of a version that is not spoken.
func isClear(pkt []byte) bool {
	return len(pkt) >= wire.HeaderSize && wire.Type(pkt[0]&0x0F) == wire.TypeMgmt &&
		(!isSpoken(pkt[0]>>4) || clearOps>>(pkt[1]&31)&1 != 0)
}

// isSpoken reports whether a version is spoken: then what follows the first byte of the header has
// the same meaning as in this version.
func isSpoken(version uint8) bool { return version == wire.Version || version == wire.OldVersion }

// isHandshake reports whether a packet that came is one of those, and names no session. What leaves
// may name one: that of a client in the clear, which is told that it needs security.
func isHandshake(pkt []byte) bool {
	field, ok := wire.SessionOf(pkt)
	return ok && isClear(pkt) && (!isSpoken(pkt[0]>>4) || field&wire.NoSession == wire.NoSession)
}

// trustsAddr reports whether packets to and from an address may be in the clear: it is of a process
// of this user, over shared memory.
func (e *engine) trustsAddr(a transport.Addr) bool {
	return e.cfg.TrustLocal && e.port.isPrivate(a)
}

// dropped stands in place of an association for a packet that is not taken.
const dropped = 1<<32 - 1

// openBurst opens the datagrams of a burst, before anything else is done with them. It leaves the
// packet that was inside in place of each, and in recordLayer.by which association has opened it: 0
// for what came in the clear. That is all that says who the sender is.
func (e *engine) openBurst(pkts []transport.RxPacket) {
	by := e.recordLayer.by[:0]
	for i := range pkts {
		by = append(by, e.open(&pkts[i]))
	}
	e.recordLayer.by = by
}

// open opens one datagram. It is the only place that looks where a sealed one came from.
func (e *engine) open(p *transport.RxPacket) uint32 {
	if !wire.IsSealed(p.Data) {
		return e.inTheClear(p)
	}
	field, from := wire.SealedField(p.Data), p.From
	a := e.assocs.find(field)
	switch {
	case a == nil:
		e.keyless(field, p, &from)
		return dropped
	case a.keys == nil:
		e.tooEarly(a, p.Data, &from)
		return dropped
	}
	if p.Shared {
		e.recordLayer.own(p) // its sender could change it while it is looked at
	}
	plain, err := a.keys.Open(p.Data)
	if err != nil || len(plain) == 0 || plain[0]>>4 != wire.Version {
		e.stats.DropSealed++
		return dropped
	}
	p.Data = plain
	a.watch.Heard(e.in.Now)
	if from != a.addr {
		e.onNewAddr(a, plain, from)
	}
	return field
}

// inTheClear says whether a packet that is not sealed is taken where security is demanded: one of
// the handshake, which never touches an open session, or one of a process of this user.
func (e *engine) inTheClear(p *transport.RxPacket) uint32 {
	head := p.Data
	if p.Shared {
		head = e.headOf(p)
	}
	n, ok := wire.SessionOf(head)
	if !ok || isHandshake(head) {
		return 0 // it names no session; for Parse to judge
	}
	if s := e.table.at(n); s != nil && s.end.Via == 0 && s.end.Peer == p.From || e.trustsAddr(p.From) {
		return 0
	}
	e.stats.DropSealed++
	return dropped
}

// own copies a packet that its sender can still change.
func (s *recordLayer) own(p *transport.RxPacket) { p.Data, p.Shared = s.copyOf(p.Data), false }

// copyOf returns a copy of a packet, which lives until the end of the pass.
func (s *recordLayer) copyOf(pkt []byte) []byte {
	if cap(s.spare)-len(s.spare) < len(pkt) {
		s.spare = make([]byte, 0, max(2*cap(s.spare), 16*len(pkt)))
	}
	start := len(s.spare)
	s.spare = append(s.spare, pkt...)
	return s.spare[start:len(s.spare):len(s.spare)]
}
