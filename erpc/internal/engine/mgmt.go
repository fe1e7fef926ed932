package engine

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

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
	e.stats.DropNoSession++
	op := wire.Op(h.ReqType)
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
		if s.probe != nil {
			s.probe.OnPong(a.Seq)
		}
		if took, ok := s.live.Took(a.Seq, e.in.Now); ok && s.Client != nil {
			s.Client.PathTook(max(took-e.in.Unseen, 1))
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
