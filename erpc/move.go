package erpc

import (
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// A client's address can change while it has sessions: a translator has forgotten it, or its host
// has gone to another network. Where packets are authenticated its sessions go along (RFC 9000,
// section 9); a server's address does not change.
//
// A packet that opens with the keys of a session's peer counts as that peer's, wherever it came
// from. If it is also the newest of all, a ping with a random number goes where it came from. All
// else goes on to the address that is known. When a pong with the number comes from the new address
// the path is proved (RFC 9000, section 8.2), and the sessions move.
//
// An attacker who copies a packet and is faster than its sender can draw a ping to any address. It
// is less than twice as large as the smallest packet, so less than the three times that RFC 9000,
// section 8.1, allows, and one leaves in moveEvery at most for each peer. The pong comes from the
// client's own address, so nothing moves, unless both ping and pong are carried through the new
// address: an attacker that can do that is on the path already.

// moveEvery is how often a ping asks whether a peer has moved.
const moveEvery = 5 * time.Millisecond

// move is an address that a peer may have moved to.
type move struct {
	to     transport.Addr
	number uint64 // that a pong from there repeats
	nextAt monotime.Time
}

// openMoved opens a packet for a session by the keys of its peer, which has come from another
// address. It then counts as one from the peer's.
func (e *engine) openMoved(s *Session, pkt *transport.RxPacket) bool {
	p := s.peer
	if p.seal == nil || s.sv == nil {
		return false
	}
	before, from := p.newest(), pkt.From
	if !e.openAny(p, pkt) {
		return false
	}
	pkt.From = p.key.addr
	switch {
	case p.clients > 0 || s.state != sessConnected:
	case p.move != nil && p.move.to == from && p.move.answeredBy(pkt.Data):
		e.relocate(p, from)
		pkt.From = from
	case p.newest() > before:
		e.askMoved(s, from)
	}
	return true
}

// newest returns the highest number of a packet that a peer has sent.
func (p *peer) newest() (n uint64) {
	for _, a := range p.others {
		n = max(n, a.Newest())
	}
	return max(n, p.seal.Newest())
}

// answeredBy reports whether a packet, which was opened, is the pong to the last ping.
func (m *move) answeredBy(pkt []byte) bool {
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt || wire.Op(h.ReqType) != wire.OpPong {
		return false
	}
	var a wire.Alive
	a.Parse(pkt[wire.HeaderSize:])
	return a.Seq == m.number
}

// askMoved sends a ping of a session to an address where its peer may be.
func (e *engine) askMoved(s *Session, to transport.Addr) {
	p := s.peer
	m := p.move
	if m != nil && e.in.Now < m.nextAt {
		return
	}
	if m == nil || m.to != to {
		m = &move{to: to, number: e.rng.Uint64()}
		p.move = m
	}
	m.nextAt = e.in.Now.Add(moveEvery)
	end := *s.end
	end.Peer = to
	s.live.Ask(&end, m.number, e.out)
	e.seam.asks = append(e.seam.asks, ask{m.number, p.seal})
}

// ask is a ping to an address that no association stands for.
type ask struct {
	number uint64
	by     *association
}

// asked returns the association that seals a packet if it is such a ping, else nil.
func (s *seam) asked(head []byte) *association {
	var h wire.Header
	if h.Parse(head) != nil || h.Type != wire.TypeMgmt || wire.Op(h.ReqType) != wire.OpPing {
		return nil
	}
	var a wire.Alive
	a.Parse(head[wire.HeaderSize:])
	for i := range s.asks {
		if s.asks[i].number == a.Seq {
			return s.asks[i].by
		}
	}
	return nil
}

// relocate moves all sessions with a peer to an address that it has proved.
func (e *engine) relocate(p *peer, to transport.Addr) {
	e.port.drain() // what is queued is for the old one
	from := p.key.addr
	for _, s := range slices.Clone(p.sessions) {
		sender := loopAddr{from, wire.LoopOf(s.end.Remote)}
		e.peers.dropEpoch(sender)
		e.peers.leave(s, &e.seam)
		s.end.Peer = to
		s.showPeer()
		e.table.rekey(s, to)
		sender.addr = to
		e.peers.addEpoch(sender, s.epoch)
		e.peers.join(s, sender.loop, &e.seam, &s.end.Params, e.in.Now)
		e.stats.SessionsMoved++
	}
	e.cfg.Logger.Info("peer moved", "from", from.String(), "to", to.String())
}

// updateKeys changes the keys of the associations that this side has opened with a peer, if they
// have been in use for long. A peer that has not followed the last change is given time.
func (e *engine) updateKeys(p *peer) {
	e.updateKey(p.seal)
	for _, a := range p.others {
		e.updateKey(a)
	}
}

func (e *engine) updateKey(a *association) {
	switch {
	case !a.opener:
	case a.updateAt == 0:
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
	case e.in.Now >= a.updateAt && a.Update():
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
		e.stats.KeyUpdates++
	}
}
