package engine

import (
	"slices"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// An owner may want to be rid of a peer that it has let in, since its certificate was revoked, say.
// Then all sessions of its association end, and the association is shut: it stays until the peer
// knows that they have ended, and as long as any other, but no session opens on it. A client that
// tries is told that the keys are worn, and begins anew with a handshake, which says whether it is
// still welcome.

// Known is a peer that has sessions here, or keys by which it could open some.
type Known struct {
	Identity // of a peer in the clear its address, and its user if that is trusted
	of       *association
}

// Known returns all peers that are not shut. What they are may be looked at in any goroutine.
func (e *Engine) Known() (list []Known) {
	for _, all := range [][]*association{e.assocs.watched, e.assocs.idle} {
		for _, a := range all {
			switch {
			case a.shut:
			case a.state != nil:
				list = append(list, Known{*a.state, a})
			case e.trustsAddr(a.addr):
				list = append(list, Known{*localIdentity(a.addr, false), a})
			default:
				list = append(list, Known{Identity{Peer: a.addr, UID: -1}, a})
			}
		}
	}
	return list
}

// Shut ends all sessions with peers, and has no more open on the keys that they have. It returns
// how many sessions it has ended. Peers that have gone meanwhile have none.
func (e *Engine) Shut(peers []Known) (ended int) {
	for _, k := range peers {
		a := k.of
		if a.keys != nil {
			a.shut = true
			e.distrust(a.field)
		}
		for _, s := range slices.Clone(a.sessions) {
			if s.state == connected {
				e.CloseConn(s)
				ended++
			}
		}
	}
	return ended
}

// Handshaking reports whether a handshake is under way that a client has begun until a time, or one
// of this side's own: the peer may have been let in by what counted then.
func (e *Engine) Handshaking(until monotime.Time) bool {
	if e.security == nil {
		return false
	}
	for _, n := range e.security.halfOpen.byKey {
		if !n.ended && n.expires <= until.Add(e.cfg.Timing.ConnectTimeout) {
			return true
		}
	}
	for _, s := range e.security.dials {
		if s.handshake.begun() {
			return true
		}
	}
	return false
}
