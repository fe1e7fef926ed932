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
		s.Client.OnCR(h, &e.in, e.Out)
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
		s.Server.OnAck(h, &e.in)
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
	if s != nil && s.state == connected { // it may have ended by the packet before
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
