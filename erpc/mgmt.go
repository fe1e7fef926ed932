package erpc

import (
	"fmt"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// resetsPerSweep bounds the Reset and DisconnectAck packets that strangers can cause.
const resetsPerSweep = 1000

// onMgmt takes a management packet.
func (e *engine) onMgmt(h *wire.Header, p *transport.RxPacket) {
	op := wire.Op(h.ReqType)
	if op == wire.OpConnect {
		e.shakes.asked = append(e.shakes.asked, connectPacket{p, h.Session, int(h.MsgSize)})
		return
	}
	s := e.table.at(h.Session)
	if s == nil && e.astray(h.Session, p) {
		return
	}
	token := wire.OpenMgmt(p.Data)
	body := p.Data[wire.HeaderSize:][:h.MsgSize]
	if op == wire.OpCrypto && h.Session == wire.NoSession {
		if e.shield != nil && token == 0 {
			e.onClientsCrypto(p, body)
		}
		return
	}
	if s == nil || token != s.end.LocalToken {
		e.onStranger(op, token, body, &p.From)
		return
	}
	if p.From != s.end.Peer {
		e.onElsewhere(s, op, body, &p.From)
		return
	}
	if op == wire.OpMoved {
		e.onMoved(s, body)
		return
	}
	s.live.Heard(e.in.Now)
	if s.peer != nil {
		s.peer.watch.Heard(e.in.Now)
	}
	switch op {
	case wire.OpChallenge, wire.OpAccept, wire.OpRefuse:
		if s.dialer != nil {
			e.onDialAnswer(s, op, body, p.Data[wire.HeaderSize+h.MsgSize:])
		}
	case wire.OpCrypto:
		if s.shake != nil {
			e.onServersCrypto(s, body)
		}
	default:
		e.onAlive(s, op, body, len(p.Data))
	}
}

// onStranger answers packets for sessions that are not known here, so that a peer
// of an earlier incarnation learns of it. It keeps no state. A damaged packet of a
// living session gets no answer: a Reset would end that session.
func (e *engine) onStranger(op wire.Op, token uint32, body []byte, from *transport.Addr) {
	e.stats.DropNoSession++
	if e.timers.resetsLeft == 0 || op != wire.OpPing && op != wire.OpDisconnect {
		return
	}
	var a wire.Alive
	if a.Parse(body); a.To != token || op == wire.OpDisconnect && a.Session == wire.NoSession {
		return
	}
	e.timers.resetsLeft--
	answer := wire.OpReset
	if op == wire.OpDisconnect {
		answer = wire.OpDisconnectAck
	}
	session.Answer(from, answer, &a, e.out)
}

// onElsewhere takes a packet of a living session that comes from another address than the peer's.
// The session stays where it is: a guessed token must not redirect its answers. A client
// that asks is told, so that it can open a new session: its address may have changed.
func (e *engine) onElsewhere(s *Session, op wire.Op, body []byte, from *transport.Addr) {
	e.stats.DropToken++
	if op != wire.OpPing || e.timers.resetsLeft == 0 || s.sv == nil {
		return
	}
	var a wire.Alive
	if a.Parse(body); a.Session != s.end.Remote || a.Token != s.end.RemoteToken {
		return
	}
	e.timers.resetsLeft--
	session.Answer(from, wire.OpMoved, &a, e.out)
}

// onMoved takes the server's word that it knows the session under another address of this side. A
// session that hears from its server lives on, whatever an old or repeated packet says.
func (e *engine) onMoved(s *Session, body []byte) {
	var a wire.Alive
	a.Parse(body)
	if s.cl == nil || s.state != sessConnected || !s.live.Unanswered(a.Seq) {
		e.stats.DropToken++
		return
	}
	e.end(s, fmt.Errorf("%w: this side's address has changed", ErrPeerLost), SessionLost)
}

// onAlive takes a packet of size bytes about the life of a session.
func (e *engine) onAlive(s *Session, op wire.Op, body []byte, size int) {
	var a wire.Alive
	a.Parse(body)
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
		s.notice.acked = true
	case wire.OpReset:
		if s.peer != nil {
			s.peer.suspectAll()
		}
		e.end(s, ErrPeerRestarted, SessionRestarted)
	case wire.OpDisconnect:
		if a.Session != wire.NoSession {
			session.Answer(&s.end.Peer, wire.OpDisconnectAck, &a, e.out)
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
