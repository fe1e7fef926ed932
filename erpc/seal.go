package erpc

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

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
