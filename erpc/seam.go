package erpc

import (
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// association protects what two endpoints send each other: all sessions between them.
type association struct {
	security.Association
	state  *ConnectionState
	name   string         // that a client wanted the server to have
	opener bool           // this side opened it
	share  transport.Addr // what the peer's sessions count for; zero for its address
	// When this side changes its keys, if it is the opener; zero before the first look.
	updateAt monotime.Time
}

// seam is where bursts are sealed when they leave, after everything is written in them.
type seam struct {
	overhead int // bytes that a sealed packet is longer; 0 if nothing is sealed
	byEnd    map[loopAddr]*association
	plain    func(to transport.Addr) bool // of this user, over shared memory; nil: nobody is

	asks  []ask  // pings that leave with the next burst to where a peer may be
	done  int    // packets at the start of Out.Tx that stay as they are
	arena []byte // of the sealed ones
	spare []byte // memory for packets that may have to be opened twice, or that a peer can change
}

// mostOthers bounds the associations of a peer beside the one that seals.
const mostOthers = 3

// join gives a peer an association. The opener seals with it at once, since the other side has
// answered with it; that one when the opener has. If there are several, that one seals by which the
// peer was heard last.
func (s *seam) join(p *peer, a *association, loop uint8) {
	switch {
	case p.seal == a || p.has(a):
		return
	case p.seal == nil:
		p.seal = a
	default:
		if len(p.others) == mostOthers {
			p.others = append(p.others[:0], p.others[1:]...)
		}
		p.others = append(p.others, a)
		if a.opener {
			p.use(a)
		}
	}
	p.loop = loop
	s.byEnd[loopAddr{p.key.addr, loop}] = p.seal
}

// leave forgets a peer. First is the first one left at its address.
func (s *seam) leave(p *peer, first *peer) {
	if p.seal == nil || s.byEnd[loopAddr{p.key.addr, p.loop}] != p.seal {
		return
	}
	delete(s.byEnd, loopAddr{p.key.addr, p.loop})
	for o := first; o != nil; o = o.twin {
		if o != p && o.seal != nil && o.loop == p.loop {
			s.byEnd[loopAddr{o.key.addr, o.loop}] = o.seal
		}
	}
}

// has reports whether an association is among those that do not seal.
func (p *peer) has(a *association) bool {
	for _, o := range p.others {
		if o == a {
			return true
		}
	}
	return false
}

// use makes an association of the peer the one that seals.
func (p *peer) use(a *association) {
	for i, o := range p.others {
		if o == a {
			p.seal, p.others[i] = a, p.seal
		}
	}
}

// plainOps are the operations whose packets are not sealed: those of the handshake. An Accept
// proves itself.
const plainOps = 1<<wire.OpConnect | 1<<wire.OpChallenge | 1<<wire.OpAccept | 1<<wire.OpRefuse |
	1<<wire.OpCrypto

// isPlain reports whether a packet is one of those, or of no version.
func isPlain(head []byte) bool {
	t := wire.Type(head[0] & 0x0F)
	return t == wire.TypeMgmt && (head[0]>>4 != wire.Version || plainOps>>(head[1]&31)&1 != 0)
}

// unsealable leaves in place of a packet whose keys are spent: nobody takes it.
var unsealable [wire.HeaderSize]byte

// seal seals what was queued since the last call, in the order in which it leaves.
func (s *seam) seal(tx []session.Tx) {
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
	var to loopAddr
	var a *association
	for i := s.done; i < len(tx); i++ {
		t := &tx[i]
		if isPlain(t.Head) {
			continue
		}
		field, _ := wire.SessionOf(t.Head[:wire.HeaderSize:wire.HeaderSize])
		if loop := wire.LoopOf(field); a == nil || to.loop != loop || to.addr != t.Dst {
			to = loopAddr{t.Dst, loop}
			a = s.byEnd[to]
		}
		by := a
		if len(s.asks) > 0 {
			if asked := s.asked(t.Head); asked != nil {
				by = asked
			}
		}
		if by == nil {
			if s.plain == nil || !s.plain(t.Dst) {
				t.Head, t.Data = unsealable[:], nil // nothing leaves in the clear
			}
			continue
		}
		start, ok := len(s.arena), false
		if s.arena, ok = by.Seal(s.arena, t.Head, t.Data); ok {
			t.Head, t.Data = s.arena[start:len(s.arena):len(s.arena)], nil
		} else {
			t.Head, t.Data = unsealable[:], nil
		}
	}
	s.done, s.asks = len(tx), s.asks[:0]
}

// kept notes that the last n packets stay in the queue: they leave byte for byte as they are.
func (s *seam) kept(n int) { s.done = n }

// open opens a packet, before anything is noted of it. Head is its header, or more. It returns
// false if the packet is not to be taken, or went to another loop. What was opened nobody can
// change.
func (e *engine) open(p *transport.RxPacket, head []byte) (ok bool) {
	n, ok := wire.SessionOf(head)
	if !ok || isPlain(head) {
		return true // for Parse to judge
	}
	s := e.table.at(n &^ wire.KeyPhase)
	switch {
	case s == nil && e.astray(n, p):
		return false
	case s == nil || s.peer == nil || s.peer.key.addr != p.From:
		ok = e.openUnknown(s, p)
	case s.peer.seal == nil:
		return p.From == s.end.Peer // a session over shared memory
	case s.peer.twin != nil: // the number may have been another session's before
		ok = e.openAny(s.peer, p) || e.openUnknown(s, p)
	default:
		ok = e.openFrom(s.peer, p)
	}
	if !ok {
		e.stats.DropSealed++
	}
	return ok
}

// openFrom opens a packet of a peer.
func (e *engine) openFrom(p *peer, pkt *transport.RxPacket) bool {
	if len(p.others) > 0 {
		return e.openAny(p, pkt)
	}
	if pkt.Shared {
		e.seam.own(pkt)
	}
	data, err := p.seal.Open(pkt.Data)
	if err != nil {
		return false
	}
	pkt.Data = data
	return true
}

// openAny is openFrom if there are several associations.
//
//go:noinline
func (e *engine) openAny(p *peer, pkt *transport.RxPacket) bool {
	for i := -1; i < len(p.others); i++ {
		a := p.seal
		if i >= 0 {
			a = p.others[i]
		}
		data, err := a.Open(e.seam.copyOf(pkt.Data))
		if err != nil {
			continue
		}
		pkt.Data, pkt.Shared = data, false
		if i >= 0 { // the peer surely has these keys now
			p.use(a)
			e.seam.byEnd[loopAddr{p.key.addr, p.loop}] = p.seal
		}
		return true
	}
	return false
}

// openUnknown opens a packet of a session that is not known here, by the keys of its sender: it may
// be about a session that has ended. S is the session under its number, of another peer or of one
// that may have moved; nil without. Its keys are not tried at their own address. Without any keys
// it is taken from peers of this user alone.
func (e *engine) openUnknown(s *Session, pkt *transport.RxPacket) bool {
	known := false
	for p := e.peers.byAddr[pkt.From]; p != nil; p = p.twin {
		if p.seal != nil {
			known = true
			if (s == nil || s.peer != p) && e.openAny(p, pkt) {
				return true
			}
		}
	}
	if s != nil && s.peer != nil && s.peer.key.addr != pkt.From && e.openMoved(s, pkt) {
		return true
	}
	return !known && e.cfg.TrustLocal && e.port.isPrivate(pkt.From)
}

// own copies a packet that its sender can still change.
func (s *seam) own(p *transport.RxPacket) { p.Data, p.Shared = s.copyOf(p.Data), false }

// copyOf returns a copy of a packet, which lives until the end of the pass.
func (s *seam) copyOf(pkt []byte) []byte {
	if cap(s.spare)-len(s.spare) < len(pkt) {
		s.spare = make([]byte, 0, max(2*cap(s.spare), 16*len(pkt)))
	}
	start := len(s.spare)
	s.spare = append(s.spare, pkt...)
	return s.spare[start:len(s.spare):len(s.spare)]
}

// supersede ends the sessions with earlier incarnations of a peer that has just proved who it is.
func (e *engine) supersede(p *peer, loop uint8) {
	for again := true; again; {
		again = false
		for old := e.peers.byAddr[p.key.addr]; old != nil; old = old.twin {
			if old != p && old.seal != nil && old.loop == loop && !old.ending {
				old.ending, again = true, true
				for i := len(old.sessions) - 1; i >= 0; i-- {
					e.end(old.sessions[i], ErrPeerRestarted, SessionRestarted)
				}
				break
			}
		}
	}
}
