package erpc

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// resetsPerSweep bounds the Reset and DisconnectAck packets that strangers can cause.
const resetsPerSweep = 1000

// onMgmt takes a management packet that an association has opened, 0 for one in the clear. A body
// is parsed where its operation is known.
func (e *engine) onMgmt(h *wire.Header, p *transport.RxPacket, via uint32) {
	op := wire.Op(h.ReqType)
	if h.Version < e.cfg.oldest || h.Version > e.cfg.newest {
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
	case s == nil || token != s.end.LocalToken:
		e.onStranger(h, token, body, &p.From, via)
	case h.Version != s.speaks():
		e.stats.DropToken++
	case op == wire.OpReset && via != s.end.Via && e.disowns(via, s):
		e.replaced(s.assoc)
	case !s.end.Names(token, &p.From, via):
		e.stats.DropToken++
		if via == 0 && s.end.Via == 0 && op == wire.OpPing {
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
func (s *Session) speaks() uint8 {
	if s.dialer != nil {
		return s.dialer.Version
	}
	return s.end.Version
}

// onUnnamed takes a management packet that names no session, where security is demanded. In the
// clear it is one of a handshake, which is known by the client's nonce and touches no session that
// is open.
func (e *engine) onUnnamed(op wire.Op, p *transport.RxPacket, body []byte, via uint32) {
	if field, _ := wire.SessionOf(p.Data); via == 0 && e.group != nil && op != wire.OpNoKeys &&
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
func (e *engine) onAssociation(a *association, op wire.Op, pkt, body []byte) {
	switch op {
	case wire.OpOpen:
		e.onOpen(a, pkt, body)
	case wire.OpPing:
		var alive wire.Alive
		alive.Parse(body)
		session.AnswerBare(&a.addr, a.field, alive.Seq, e.out)
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
func (e *engine) onStranger(
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
	session.Answer(from, via, h.Version, answer, &alive, e.out)
}

// onElsewhere takes a ping of a living session in the clear that comes from another address than
// the peer's. The session stays where it is: a guessed token must not redirect its answers. A
// client that asks is told, so that it can open a new session: its address may have changed.
func (e *engine) onElsewhere(s *Session, body []byte, from *transport.Addr) {
	var a wire.Alive
	a.Parse(body)
	if e.timers.resetsLeft == 0 || s.sv == nil ||
		a.Session != s.end.Remote || a.Token != s.end.RemoteToken {
		return
	}
	e.timers.resetsLeft--
	session.Answer(from, 0, s.end.Version, wire.OpMoved, &a, e.out)
}

// onMoved takes the server's word that it knows the session under another address of this side. One
// packet that took another way says nothing: so the server is asked, and it must say the same to
// several pings, and nothing else meanwhile.
func (e *engine) onMoved(s *Session, a *wire.Alive) {
	switch {
	case s.cl == nil || s.state != sessConnected || s.end.Via != 0:
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
func (e *engine) onAlive(s *Session, op wire.Op, body []byte, size int) {
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
		if s.state == sessConnected {
			s.live.Pong(s.end, a.Seq, size, e.out)
		}
	case wire.OpPong:
		if s.probe != nil {
			s.probe.OnPong(a.Seq)
		}
		if took, ok := s.live.Took(a.Seq, e.in.Now); ok && s.cl != nil {
			s.cl.PathTook(max(took-e.in.Unseen, 1))
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
		e.end(s, ErrPeerRestarted, SessionRestarted)
	case wire.OpDisconnect:
		if a.Session != wire.NoSession {
			session.Answer(&s.end.Peer, s.end.Via, s.end.Version, wire.OpDisconnectAck, &a, e.out)
		}
		if s.cl != nil && s.state == sessConnected {
			e.out.Flush()
			s.cl.NotTaken(wire.FindTaken(body[wire.AliveSize:]), errNotTaken, e.in.Now, e.out)
		}
		e.end(s, ErrPeerClosed, SessionDisconnected)
	case wire.OpDisconnectAck:
		if s.state == sessClosing {
			e.forget(s)
		}
	}
}
