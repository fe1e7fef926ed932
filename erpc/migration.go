package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// A client's address can change while it has sessions: a translator has forgotten it, or its host
// has gone to another network. Where packets are authenticated its association goes along
// (RFC 9000, section 9); a server's address does not change.
//
// A datagram that opens is its association's, wherever it came from. If it is also the newest of
// all, a ping with a random number goes where it came from. All else goes on to the address that is
// known. When a pong with the number comes from the new address the path is proved (RFC 9000,
// section 8.2), and the association moves.
//
// An attacker who copies a packet and is faster than its sender can draw a ping to any address. It
// is less than twice as large as the smallest packet, so less than the three times that RFC 9000,
// section 8.1, allows, and one leaves in migrationEvery at most for each peer. The pong comes from
// the client's own address, so nothing moves, unless both ping and pong are carried through the new
// address: an attacker that can do that is on the path already.

// migrationEvery is how often a ping asks whether a peer has moved.
const migrationEvery = 5 * time.Millisecond

// migration is an address that a peer may have moved to.
type migration struct {
	to     transport.Addr
	number uint64        // that a pong from there repeats
	nextAt monotime.Time // when it may be asked again
}

// onNewAddr takes an opened packet of an association that came from another address than the known
// one.
func (e *engine) onNewAddr(a *association, pkt []byte, from transport.Addr) {
	if a.opener {
		return
	}
	m := a.migration
	if m != nil && m.to == from && m.answeredBy(pkt) {
		e.migrate(a, from)
		return
	}
	if !a.keys.IsNewest() || m != nil && e.in.Now < m.nextAt {
		return
	}
	if m == nil || m.to != from {
		m = &migration{to: from, number: e.rng.Uint64()}
		a.migration = m
	}
	m.nextAt = e.in.Now.Add(migrationEvery)
	session.PingAt(&m.to, a.field, m.number, e.out)
}

// answeredBy reports whether a packet is the pong to the last ping.
func (m *migration) answeredBy(pkt []byte) bool {
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt || wire.Op(h.ReqType) != wire.OpPong {
		return false
	}
	var a wire.Alive
	a.Parse(pkt[wire.HeaderSize:])
	return a.Seq == m.number
}

// migrate moves an association to an address that its peer has proved.
func (e *engine) migrate(a *association, to transport.Addr) {
	e.port.drain() // what is queued is for the old one
	from := a.addr
	e.assocs.leaveAddr(a)
	a.addr, a.migration = to, nil
	e.assocs.byAddr[to] = append(e.assocs.byAddr[to], a)
	for _, s := range a.sessions {
		s.end.Peer = to
		s.showPeer()
		e.stats.SessionsMoved++
	}
	e.cfg.Logger.Info("peer moved", "from", from.String(), "to", to.String())
}
