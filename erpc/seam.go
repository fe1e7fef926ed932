package erpc

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// sealer protects what two endpoints send each other: one association for all sessions between
// them. An endpoint is one thread, so a sealer needs no lock. Nothing seals yet: the seam is here
// so that sessions, transports and the loop need not change when something does.
type sealer interface {
	// overhead is how many bytes a sealed packet is longer.
	overhead() int
	// seal makes each packet its sealed form: Head, in memory behind arena, and no Data. The
	// first wire.HeaderSize bytes stay where receivers look for them. It is called once for a
	// burst, with all packets for the peer, and never twice for a packet. Arena has room. It
	// returns what follows the sealed packets.
	seal(arena []byte, pkts []*session.Tx) []byte
	// open returns a packet as its sender made it, in the packet's memory; false if it is not
	// the peer's, or not for the first time.
	open(pkt []byte) ([]byte, bool)
}

// seam is where bursts are sealed when they leave, after everything is written in them.
type seam struct {
	// associate makes the association with a peer endpoint, nil for none. Both are nil unless
	// something seals.
	associate func(addr transport.Addr, epoch uint64) sealer
	byAddr    map[transport.Addr]sealer
	overhead  int // of any of them, bytes

	done   int    // packets at the start of Out.Tx that stay as they are
	arena  []byte // of the sealed ones
	groups []sealGroup
}

// sealGroup holds the packets of a burst for one peer.
type sealGroup struct {
	to   sealer
	pkts []*session.Tx
}

// on reports whether anything may have to be sealed.
func (s *seam) on() bool { return len(s.byAddr)+s.done > 0 }

// join and leave follow the peers.
func (s *seam) join(p *peer) {
	if s.associate == nil {
		return
	}
	if p.seal = s.associate(p.key.addr, p.key.epoch); p.seal != nil {
		if s.byAddr == nil {
			s.byAddr = make(map[transport.Addr]sealer)
		}
		s.byAddr[p.key.addr] = p.seal
	}
}

func (s *seam) leave(p *peer) {
	if s.byAddr[p.key.addr] == p.seal {
		delete(s.byAddr, p.key.addr)
	}
}

// plainOps are the operations whose packets are not sealed: those of the handshake, and answers of
// an endpoint that does not know the session.
const plainOps = 1<<wire.OpConnect | 1<<wire.OpChallenge | 1<<wire.OpAccept | 1<<wire.OpRefuse |
	1<<wire.OpReset | 1<<wire.OpMoved | 1<<wire.OpDisconnectAck

// isPlain reports whether a packet is one of those, or of no version.
func isPlain(head []byte) bool {
	t := wire.Type(head[0] & 0x0F)
	return t == wire.TypeMgmt && (head[0]>>4 != wire.Version || plainOps>>(head[1]&31)&1 != 0)
}

// seal seals what was queued since the last call: all packets of a peer at once, in the order in
// which they leave.
func (s *seam) seal(tx []session.Tx) {
	need := 0
	for i := s.done; i < len(tx); i++ {
		t := &tx[i]
		to := s.byAddr[t.Dst]
		if to == nil || isPlain(t.Head) {
			continue
		}
		need += len(t.Head) + len(t.Data) + to.overhead()
		s.groupOf(to).pkts = append(s.groupOf(to).pkts, t)
	}
	if s.done == 0 {
		s.arena = s.arena[:0]
	}
	if cap(s.arena)-len(s.arena) < need {
		s.arena = make([]byte, 0, 2*need) // what is sealed already keeps the old one
	}
	for i := range s.groups {
		g := &s.groups[i]
		s.arena = g.to.seal(s.arena, g.pkts)
		clear(g.pkts)
		g.pkts, g.to = g.pkts[:0], nil
	}
	s.groups = s.groups[:0]
	s.done = len(tx)
}

// groupOf returns the group of a peer, of which a burst has few.
func (s *seam) groupOf(to sealer) *sealGroup {
	for i := range s.groups {
		if s.groups[i].to == to {
			return &s.groups[i]
		}
	}
	if len(s.groups) < cap(s.groups) {
		s.groups = s.groups[:len(s.groups)+1]
	} else {
		s.groups = append(s.groups, sealGroup{})
	}
	g := &s.groups[len(s.groups)-1]
	g.to = to
	return g
}

// kept notes that the last n packets stay in the queue: they leave byte for byte as they are.
func (s *seam) kept(n int) { s.done = n }

// open opens a packet whose peer seals, before anything is noted of it. It returns false if the
// packet is not the peer's, or went to another loop.
func (e *engine) open(p *transport.RxPacket) (ok bool) {
	n, ok := wire.SessionOf(p.Data)
	if !ok || isPlain(p.Data) {
		return true // for Parse to judge
	}
	s := e.table.at(n &^ wire.KeyPhase)
	switch {
	case s == nil:
		return !e.astray(n, p)
	case s.peer == nil || s.peer.seal == nil:
		return true
	}
	if p.Data, ok = s.peer.seal.open(p.Data); !ok {
		e.stats.DropSealed++
	}
	return ok
}
