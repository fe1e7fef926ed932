package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// An endpoint that gets a sealed datagram with an index that it does not know says so, and quotes
// the datagram's first bytes: it has restarted, or has forgotten an association. It cannot prove
// that, and whoever reads the path could say it. So a client makes new keys with the server, beside
// those that it has, and goes on with both. If the server proves its identity in another
// incarnation, the sessions of the older one are asked; they end if nothing answers.

// renewEvery is how often at most a client follows the word of a server that it has no keys.
const renewEvery = time.Second

// keyless takes a sealed datagram whose index is not known here.
func (e *engine) keyless(field uint32, p *transport.RxPacket, from *transport.Addr) {
	if e.loop() != wire.LoopOf(field) {
		if e.astray(field, p) {
			return
		}
		e.stats.DropNoLoop++
	} else {
		e.stats.DropNoSession++
	}
	const size = wire.HeaderSize + wire.NoKeysSize
	if len(p.Data) < size || !e.handshakes.budgets.keyless.take(e.in.Now) {
		return // no answer is longer than its question
	}
	n := wire.NoKeys{Quote: [wire.QuoteSize]byte(p.Data)}
	e.out.Mgmt(from, 0, wire.Version, wire.OpNoKeys, wire.NoSession, 0, wire.NoKeysSize, 0, n.Put)
}

// onNoKeys takes a server's word that it has no keys, if it quotes what left here.
func (e *engine) onNoKeys(p *transport.RxPacket, body []byte) {
	var n wire.NoKeys
	n.Parse(body)
	for _, a := range e.assocs.byAddr[p.From] {
		if a.sent != nil && a.sent.take(n.Quote[:]) {
			e.renew(a)
			return
		}
	}
	if field, _ := wire.SessionOf(p.Data); e.group == nil || wire.LoopOf(field) != 0 {
		e.stats.DropNoSession++
		return
	}
	e.passOn(p)
}

// passOn gives a packet that names no loop to all other loops of the address.
func (e *engine) passOn(p *transport.RxPacket) {
	for loop := uint8(1); int(loop) <= len(e.group.members); loop++ {
		if loop == e.loop() || e.timers.resetsLeft == 0 {
			continue
		}
		e.timers.resetsLeft--
		wire.SetLoop(p.Data, loop)
		wire.SealMgmt(p.Data, 0)
		e.astray(wire.FirstOf(loop), p)
	}
}

// renew makes new keys with a server that says that it has those of an association no more.
func (e *engine) renew(a *association) {
	if !e.mayRenew(a) || e.distrust(a.field) || len(a.sessions) == 0 {
		return
	}
	// Another loop of the same server would say nothing of this one.
	s, err := e.dialLoop(a.addr, a.name, a.loop, e.cfg.Timing.ConnectTimeout)
	if err == nil && s.handshake != nil {
		s.hidden, s.handshake.renews = true, true
	}
}

// mayRenew reports whether anything may be done now because an association's keys seem to be lost,
// or are worn: once in renewEvery.
func (e *engine) mayRenew(a *association) bool {
	if e.in.Now < a.renewAt || e.closing {
		return false
	}
	a.renewAt = e.in.Now.Add(renewEvery)
	return true
}

// distrust lets no session open on an association any more. Those that are about to begin anew; it
// reports whether there are any.
func (e *engine) distrust(field uint32) (any bool) {
	if a := e.assocs.find(field); a != nil && e.assocs.dialled[a.leaderKey()] == a {
		delete(e.assocs.dialled, a.leaderKey())
	}
	for _, s := range e.handshakes.repeating {
		if s.state == sessConnecting && s.handshake != nil && s.handshake.opening && s.end.Via == field {
			e.reconnect(s)
			any = true
		}
	}
	return any
}

// reconnect begins anew with a session that was opening on an association.
func (e *engine) reconnect(s *Session) {
	path, renewAt := e.port.pathTo(s.end.Peer), monotime.Time(0)
	if a := e.assocs.find(s.end.Via); a != nil {
		renewAt = a.renewAt
	}
	e.abandonHandshake(s)
	s.dialer.Restart(e.rng.Uint64(), e.in.Now)
	if !e.guardDial(s, &path) {
		e.end(s, errNoIndex, SessionRefused)
		return
	}
	if s.handshake != nil {
		s.handshake.own.renewAt = renewAt // the next ones may be said to be lost as seldom
	}
	_ = s.dialer.Tick(e.in.Now, e.out) // cannot time out before the next look
}

// probeOlder asks the sessions of earlier incarnations of a peer that has just proved its identity
// whether they live. It ends none by itself: what has its address may be another process, behind an
// address translator.
//
// The server may be the process that it was, and have forgotten an association, since this side was
// stopped for long; or its loop has ended. So if it was said that the keys of one are lost, another
// loop or the same incarnation is asked by the new keys after one of the sessions.
func (e *engine) probeOlder(a *association) {
	for _, o := range e.assocs.byAddr[a.addr] {
		switch {
		case o == a || o.keys == nil || o.opener != a.opener || o.name != a.name ||
			o.quotaKey != a.quotaKey:
		case o.epoch != a.epoch && o.loop == a.loop:
			e.replaced(o)
		case a.opener && o.renewAt != 0 && len(o.sessions) > 0:
			end := o.sessions[0].end
			x := wire.Alive{Session: end.Local, Token: end.LocalToken, Seq: e.rng.Uint64(),
				To: end.RemoteToken}
			e.out.Mgmt(&a.addr, a.field, wire.Version, wire.OpPing, end.Remote, end.RemoteToken,
				wire.AliveSize, 0, x.Put)
		}
	}
}

// replaced begins to probe an association whose peer seems to be gone. Its sessions end if nothing
// answers under its own keys.
func (e *engine) replaced(o *association) {
	if d := e.beginDeathProbe(o); d != nil {
		if d.heard { // before
			*d = deathProbe{peer: o, began: e.in.Now, quotes: quotes{since: e.in.Now}}
		}
		d.reborn = true
	}
}

// disowns reports whether an association's peer may say that it does not know a session of another
// one: this side has opened both with the server of the same name. Others have no say.
func (e *engine) disowns(via uint32, s *Session) bool {
	a, o := e.assocs.find(via), s.assoc
	return a != nil && o != nil && a.opener && o.opener && a.name == o.name && a.addr == o.addr
}

// updateKey changes the keys of an association that this side has opened, if they have been in use
// for long. A peer that has not followed the last change is given time. If many packets were forged
// under the association, others open on a new one: the opener makes it, or is told to.
func (e *engine) updateKey(a *association) {
	switch {
	case a.keys.Worn() && a.opener:
		e.renew(a)
	case a.keys.Worn():
		if !e.mayRenew(a) {
			return // it was told, and makes others
		}
		var n wire.NoKeys
		e.out.Mgmt(&a.addr, a.field, wire.Version, wire.OpNoKeys, wire.NoSession, 0, wire.NoKeysSize, 0,
			n.Put)
	case !a.opener:
	case a.updateAt == 0:
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
	case e.in.Now >= a.updateAt && a.keys.Update():
		a.updateAt = e.in.Now.Add(e.cfg.KeyUpdate)
		e.stats.KeyUpdates++
	}
}
