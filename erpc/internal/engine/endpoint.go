package engine

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// From coldSessions sessions on, state is prefetched for the whole burst.
const coldSessions = 256

// Cold reports whether a burst is worth Prefetch.
func (e *Engine) Cold() bool { return e.table.live >= coldSessions }

// Prefetch asks for the sessions of a burst, and then for what they point to, before any
// packet is looked at, so that their cache misses overlap.
func (e *Engine) Prefetch(pkts []transport.RxPacket) {
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
			if s.Server != nil {
				s.Server.Prefetch(step)
			}
		}
	}
}

// prefetchSession is the first step of Prefetch for a session.
func (e *Engine) prefetchSession(number uint32) {
	if s := e.table.at(number); s != nil {
		s.Prefetch()
		e.ahead = append(e.ahead, s)
	}
}

// OnPacket takes one received packet, which an association has opened; 0 for one in the clear.
func (e *Engine) OnPacket(p *transport.RxPacket, via uint32) {
	if e.cfg.NoBatchedTime {
		e.in.Now = e.port.ReadClock()
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
	if s.state != connected || h.Version != s.End.Version ||
		!s.End.Names(s.End.TokenIn(p.Data), &p.From, via) {
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
func (e *Engine) headOf(p *transport.RxPacket) []byte {
	n := copy(e.head[:], p.Data)
	if wire.Type(e.head[0]&0x0F) != wire.TypeMgmt {
		return e.head[:n]
	}
	e.recordLayer.own(p)
	return p.Data
}

// handle takes a packet of a session.
func (e *Engine) handle(s *Conn, h *wire.Header, payload []byte) {
	s.live.Heard(e.in.Now)
	e.hand = s
	switch {
	case s.Server != nil && h.Type == wire.TypeReq:
		s.Server.OnReq(h, payload, &e.in, e.Out)
	case s.Server != nil && h.Type == wire.TypeRFR:
		s.Server.OnRFR(h, &e.in, e.Out)
	case s.Client != nil && h.Type == wire.TypeResp:
		s.Client.OnResp(h, payload, &e.in, e.Out)
	case s.Client != nil && h.Type == wire.TypeCR:
		s.Client.OnCR(h, payload, &e.in, e.Out)
	default:
		e.onRare(s, h, payload)
	}
}

// onRare takes a packet of a session that is not of the common case.
//
//go:noinline
func (e *Engine) onRare(s *Conn, h *wire.Header, payload []byte) {
	switch {
	case s.Client != nil && h.Type == wire.TypeErr:
		s.Client.OnErr(h, payload, &e.in, e.Out)
	case s.Client != nil && h.Type == wire.TypeWait:
		s.Client.OnWait(h, &e.in, e.Out)
	case s.Client != nil && h.Type == wire.TypePast:
		s.Client.OnPast(h, &e.in, e.Out)
	case s.Server != nil && h.Type == wire.TypeCancel:
		s.Server.OnCancel(h, &e.in, e.Out)
	case s.Server != nil && h.Type == wire.TypeAck:
		s.Server.OnAck(h, &e.in, e.Out)
	default:
		e.stats.DropRole++
	}
}

// Settle acts on an outcome that is the engine's own.
func (e *Engine) Settle(ev *session.Event) {
	switch s := e.table.at(ev.Session); ev.Kind {
	case session.EventPace:
		if s != nil && s.state == connected {
			e.timers.pace(s, e.in.Now)
		}
	case session.EventLate:
		e.timers.late = append(e.timers.late, s)
	case session.EventBroken:
		e.end(s, OwnError(ev.Err), Lost)
	}
}

// Bundle is a received datagram with several packets, of sessions with one peer.
type Bundle struct {
	wire.Bundle
	pkt    *transport.RxPacket
	via    uint32       // the association that opened it, 0 for none
	with   *association // nil until a packet has named one of its sessions
	conn   *Conn        // of the packet read last; nil if that was dropped
	summed bool         // the bundle's checksum is right
	begun  bool
}

// OpenBundle checks all of a bundle before its first packet is handled. It reports false if the
// bundle is dropped, as each is that its sender could change after it was checked.
func (e *Engine) OpenBundle(b *Bundle, p *transport.RxPacket, via uint32) bool {
	if e.cfg.NoBatchedTime {
		e.in.Now = e.port.ReadClock()
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

// OnBundled takes the next packet of a bundle. It reports false if there is none. The owner settles
// what a packet has led to before it goes on.
func (e *Engine) OnBundled(b *Bundle) bool {
	var h wire.Header
	payload, ok := b.Next(&h)
	if !ok {
		return false
	}
	e.stats.RxBundled++
	s := b.conn
	if b.Another() || !b.begun {
		if s = e.table.at(h.Session); s == nil || !b.has(s, &h) {
			s = e.residentOf(b, &h)
		}
		b.conn = s
	}
	switch {
	case s == nil || s.state != connected: // it may have ended by the packet before
	case s.Server != nil && h.Type == wire.TypeReq: // this and the next are handle's, a call less
		s.live.Heard(e.in.Now)
		e.hand = s
		s.Server.OnReq(&h, payload, &e.in, e.Out)
	case s.Client != nil && h.Type == wire.TypeResp:
		s.live.Heard(e.in.Now)
		e.hand = s
		s.Client.OnResp(&h, payload, &e.in, e.Out)
	default:
		e.handle(s, &h, payload)
	}
	return true
}

// has reports whether the packet read last, with header h, is surely one of s.
func (b *Bundle) has(s *Conn, h *wire.Header) bool {
	return s.assoc == b.with && s.assoc != nil && b.Token() == s.End.LocalToken && b.begun &&
		s.End.Checksum == b.summed && s.End.Version == h.Version && s.End.Bundles &&
		s.state == connected
}

// residentOf returns the session of the packet in a bundle that was read last, when it is not that
// of the packet before; nil if the packet is dropped.
func (e *Engine) residentOf(b *Bundle, h *wire.Header) *Conn {
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
		token = s.End.TokenIn(b.pkt.Data)
	}
	switch {
	case s.state != connected || h.Version != s.End.Version ||
		!s.End.Names(token, &b.pkt.From, b.via),
		b.with != nil && s.assoc != b.with:
		e.stats.DropToken++
		return nil
	case !s.End.Bundles || !first && s.End.Checksum != b.summed:
		e.stats.DropBundle++
		return nil
	}
	if b.with == nil {
		b.with, b.summed = s.assoc, s.End.Checksum
		s.assoc.watch.Heard(e.in.Now)
	}
	return s
}

// prefetchBundle is the first step of Prefetch for the sessions of a bundle.
func (e *Engine) prefetchBundle(pkt []byte) {
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

// recordLayer is where bursts are sealed when they leave, after everything is written in them, and
// opened when they come, before anything is read in them.
type recordLayer struct {
	overhead int      // bytes that a sealed packet is longer; 0 if nothing is sealed
	done     int      // packets at the start of Out.Tx that stay as they are
	arena    []byte   // of the sealed ones
	spare    []byte   // memory for packets that a peer could change
	by       []uint32 // of each packet of the burst: the association that opened it
	usage    usage
}

// unsealable leaves in place of a packet whose keys are spent or gone: nobody takes it.
var unsealable [wire.HeaderSize]byte

// Seal seals what was queued since the last call, in the order in which it leaves, each packet by
// the association that its session named. What names none is of the handshake, or goes to a
// process of this user.
func (e *Engine) Seal(tx []session.Tx) {
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

// Kept notes that the last n packets stay in the queue: they leave byte for byte as they are.
func (e *Engine) Kept(n int) { e.recordLayer.done = n }

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
func (e *Engine) trustsAddr(a transport.Addr) bool {
	return e.cfg.TrustLocal && e.port.IsPrivate(a)
}

// dropped stands in place of an association for a packet that is not taken.
const dropped = 1<<32 - 1

// OpenBurst opens the datagrams of a burst, before anything else is done with them. It leaves the
// packet that was inside in place of each, and in recordLayer.by which association has opened it: 0
// for what came in the clear. That is all that says who the sender is.
func (e *Engine) OpenBurst(pkts []transport.RxPacket) {
	by := e.recordLayer.by[:0]
	for i := range pkts {
		by = append(by, e.open(&pkts[i]))
	}
	e.recordLayer.by = by
}

// OpenedBy returns which association has opened the i-th datagram of the burst, 0 if it came in the
// clear. It reports false if the packet is not taken.
func (e *Engine) OpenedBy(i int) (via uint32, ok bool) {
	via = e.recordLayer.by[i]
	return via, via != dropped
}

// Sealing reports whether packets are sealed: then each burst goes through OpenBurst, and each
// batch through Seal.
func (e *Engine) Sealing() bool { return e.sealing }

// Recycle takes the memory of the last burst's packets back, before the next one.
func (e *Engine) Recycle() { e.recordLayer.spare = e.recordLayer.spare[:0] }

// open opens one datagram. It is the only place that looks where a sealed one came from.
func (e *Engine) open(p *transport.RxPacket) uint32 {
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
	e.recordLayer.usage.opened++
	a.watch.Heard(e.in.Now)
	if from != a.addr {
		e.onNewAddr(a, plain, from)
	}
	return field
}

// inTheClear says whether a packet that is not sealed is taken where security is demanded: one of
// the handshake, which never touches an open session, or one of a process of this user.
func (e *Engine) inTheClear(p *transport.RxPacket) uint32 {
	head := p.Data
	if p.Shared {
		head = e.headOf(p)
	}
	n, ok := wire.SessionOf(head)
	if !ok || isHandshake(head) {
		return 0 // it names no session; for Parse to judge
	}
	if s := e.table.at(n); s != nil && s.End.Via == 0 && s.End.Peer == p.From || e.trustsAddr(p.From) {
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

// resetsPerSweep bounds the Reset and DisconnectAck packets that strangers can cause.
const resetsPerSweep = 1000

// onMgmt takes a management packet that an association has opened, 0 for one in the clear. A body
// is parsed where its operation is known.
func (e *Engine) onMgmt(h *wire.Header, p *transport.RxPacket, via uint32) {
	op := wire.Op(h.ReqType)
	if h.Version < e.cfg.Oldest || h.Version > e.cfg.Newest {
		e.stats.DropMalformed++
		e.onOtherVersion(p)
		return
	}
	if op == wire.OpConnect {
		if via == 0 {
			c := connectPacket{p, h.Session, int(h.MsgSize), h.Version}
			e.handshakes.connects = append(e.handshakes.connects, c)
		}
		return
	}
	body := p.Data[wire.HeaderSize:][:h.MsgSize]
	if h.Session == wire.NoSession && e.security != nil {
		if h.Version == wire.Version {
			e.onUnnamed(op, p, body, via)
		} else {
			e.stats.DropNoSession++
		}
		return
	}
	s := e.table.at(h.Session)
	if s == nil && via == 0 && e.astray(h.Session, p) {
		return
	}
	token := wire.OpenMgmt(p.Data)
	switch {
	case s == nil || token != s.End.LocalToken:
		e.onStranger(h, token, body, &p.From, via)
	case h.Version != s.speaks():
		e.stats.DropToken++
	case op == wire.OpReset && via != s.End.Via && e.disowns(via, s):
		e.replaced(s.assoc)
	case !s.End.Names(token, &p.From, via):
		e.stats.DropToken++
		if via == 0 && s.End.Via == 0 && op == wire.OpPing {
			e.onElsewhere(s, body, &p.From)
		}
	case s.dialer != nil:
		s.live.Heard(e.in.Now)
		e.onDialAnswer(s, op, body)
	default:
		e.onAlive(s, op, body, len(p.Data))
	}
}

// speaks returns the version of the session's packets.
func (s *Conn) speaks() uint8 {
	if s.dialer != nil {
		return s.dialer.Version
	}
	return s.End.Version
}

// onUnnamed takes a management packet that names no session, where security is demanded. In the
// clear it is one of a handshake, which is known by the client's nonce and touches no session that
// is open.
func (e *Engine) onUnnamed(op wire.Op, p *transport.RxPacket, body []byte, via uint32) {
	if field, _ := wire.SessionOf(p.Data); via == 0 && e.peers != nil && op != wire.OpNoKeys &&
		e.astray(field, p) {
		return
	}
	if wire.OpenMgmt(p.Data) != 0 {
		e.stats.DropToken++
		return
	}
	switch a := e.assocs.find(via); {
	case a != nil:
		e.onAssociation(a, op, p.Data, body)
	case via != 0: // it ended by a packet before
	case op == wire.OpNoKeys:
		e.onNoKeys(p, body)
	case op == wire.OpCrypto:
		e.onCrypto(p, body)
	case op == wire.OpChallenge || op == wire.OpRefuse:
		e.onDialer(op, body)
	default:
		e.stats.DropNoSession++
	}
}

// onAssociation takes a packet of an association that names none of its sessions.
func (e *Engine) onAssociation(a *association, op wire.Op, pkt, body []byte) {
	switch op {
	case wire.OpOpen:
		if a.shut {
			e.sayWorn(a) // the client begins anew, and is looked at again
			return
		}
		e.onOpen(a, pkt, body)
	case wire.OpPing:
		var alive wire.Alive
		alive.Parse(body)
		session.AnswerBare(&a.addr, a.field, alive.Seq, e.Out)
	case wire.OpCrypto:
		e.onTicket(a, body)
	case wire.OpNoKeys: // the server's keys are worn
		if a.opener {
			e.renew(a)
		}
	}
}

// onStranger answers packets for sessions that are not known here, so that a peer of an earlier
// incarnation learns of it. It keeps no state. A damaged packet of a living session gets no answer:
// a Reset would end that session. Packets that an association has opened do not use up the budget
// of strangers.
func (e *Engine) onStranger(
	h *wire.Header, token uint32, body []byte, from *transport.Addr, via uint32,
) {
	op := wire.Op(h.ReqType)
	if op == wire.OpAccept {
		var a wire.Accept
		a.Parse(body)
		e.decline(&a, token, from, via)
	}
	e.stats.DropNoSession++
	if via == 0 && e.timers.resetsLeft == 0 || op != wire.OpPing && op != wire.OpDisconnect {
		return
	}
	var alive wire.Alive
	alive.Parse(body)
	if alive.To != token || op == wire.OpDisconnect && alive.Session == wire.NoSession {
		return
	}
	switch a := e.assocs.find(via); {
	case a != nil:
		from = &a.addr
	case via != 0:
		return
	default:
		e.timers.resetsLeft--
	}
	answer := wire.OpReset
	if op == wire.OpDisconnect {
		answer = wire.OpDisconnectAck
	}
	session.Answer(from, via, h.Version, answer, &alive, e.Out)
}

// onElsewhere takes a ping of a living session in the clear that comes from another address than
// the peer's. The session stays where it is: a guessed token must not redirect its answers. A
// client that asks is told, so that it can open a new session: its address may have changed.
func (e *Engine) onElsewhere(s *Conn, body []byte, from *transport.Addr) {
	var a wire.Alive
	a.Parse(body)
	if e.timers.resetsLeft == 0 || s.Server == nil ||
		a.Session != s.End.Remote || a.Token != s.End.RemoteToken {
		return
	}
	e.timers.resetsLeft--
	session.Answer(from, 0, s.End.Version, wire.OpMoved, &a, e.Out)
}

// onMoved takes the server's word that it knows the session under another address of this side. One
// packet that took another way says nothing: so the server is asked, and it must say the same to
// several pings, and nothing else meanwhile.
func (e *Engine) onMoved(s *Conn, a *wire.Alive) {
	switch {
	case s.Client == nil || s.state != connected || s.End.Via != 0:
		e.stats.DropToken++
	case s.assoc.deathProbe != nil && s.assoc.deathProbe.isPing(a.Seq):
		s.assoc.deathProbe.moved++
	case s.live.Unanswered(a.Seq):
		e.beginDeathProbe(s.assoc)
	default:
		e.stats.DropToken++
	}
}

// onAlive takes a packet of size bytes about the life of a session.
func (e *Engine) onAlive(s *Conn, op wire.Op, body []byte, size int) {
	if op < wire.OpDisconnect || op > wire.OpDrainAck {
		e.stats.DropRole++
		return
	}
	var a wire.Alive
	a.Parse(body)
	if op == wire.OpMoved {
		e.onMoved(s, &a)
		return
	}
	s.live.Heard(e.in.Now)
	if s.assoc != nil {
		s.assoc.watch.Heard(e.in.Now)
	}
	switch op {
	case wire.OpPing:
		if s.state == connected {
			s.live.Pong(s.End, a.Seq, size, e.Out)
		}
	case wire.OpPong:
		e.onPong(s, a.Seq)
		if took, ok := s.live.Took(a.Seq, e.in.Now); ok && s.Client != nil {
			s.Client.PathTook(took, e.in.Unseen)
		}
	case wire.OpDrain:
		e.onDrain(s, &a, wire.FindTaken(body[wire.AliveSize:]))
	case wire.OpDrainAck:
		if s.srv != nil {
			s.srv.notice.acked = true
		}
	case wire.OpReset:
		if s.assoc != nil {
			s.assoc.suspectAll()
		}
		e.end(s, ErrPeerRestarted, Restarted)
	case wire.OpDisconnect:
		if a.Session != wire.NoSession {
			session.Answer(&s.End.Peer, s.End.Via, s.End.Version, wire.OpDisconnectAck, &a, e.Out)
		}
		if s.Client != nil && s.state == connected {
			e.Out.Flush()
			s.Client.NotTaken(wire.FindTaken(body[wire.AliveSize:]), ErrNotTaken, e.in.Now, e.Out)
		}
		e.end(s, ErrPeerClosed, Disconnected)
	case wire.OpDisconnectAck:
		if s.state == closing {
			e.forget(s)
		}
	}
}

// unknown takes a packet of a session that is not in the table, with its session field. It reports
// whether the packet is for another loop. What was sealed is for the loop that has its keys.
//
//go:noinline
func (e *Engine) unknown(field uint32, p *transport.RxPacket, via uint32) bool {
	if via != 0 || wire.LoopOf(field) == e.Loop() {
		e.stats.DropNoSession++
		return false
	}
	if !e.astray(field, p) {
		e.stats.DropNoLoop++
	}
	return true
}

// astray gives a packet to the loop that its session field names. It reports false if that is this
// one, or does not run: the packet stays here.
//
//go:noinline
func (e *Engine) astray(field uint32, p *transport.RxPacket) bool {
	loop := wire.LoopOf(field)
	if loop == e.Loop() || e.peers == nil {
		return false
	}
	runs, took := e.peers.HandOver(loop, p)
	if took {
		e.stats.HandedOver++
	} else if runs {
		e.stats.DropHandover++
	}
	return runs
}

// cookie makes the cookie for a first Connect. That of a group names the loop that the session is
// for.
func (e *Engine) cookie(c *wire.Connect, p *connectPacket, body []byte) [wire.CookieSize]byte {
	cookies := e.handshakes.cookies
	if e.peers == nil {
		return cookies.Make(&p.From, body, e.in.Now)
	}
	field, _ := wire.SessionOf(p.Data)
	loop := e.peers.Place(cookies.Spread(&p.From, c.Nonce), wire.LoopOf(field))
	return cookies.MakeFor(loop, &p.From, body, e.in.Now)
}

// placed reports whether a session whose cookie is good is for this loop. If not, the Connect goes
// to its loop. If that has ended, the cookie is as one of an endpoint that has restarted.
func (e *Engine) placed(c *wire.Connect, p *connectPacket) (here, gone bool) {
	loop := c.Cookie[wire.CookieLoopAt]
	if e.peers == nil || loop == e.Loop() {
		return true, false
	}
	return false, !e.astray(wire.FirstOf(loop), p.RxPacket)
}
