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
	token := wire.OpenMgmt(p.Data)
	body := p.Data[wire.HeaderSize:]
	op := wire.Op(h.ReqType)
	if op == wire.OpConnect {
		if h.Session != wire.NoSession || token != 0 {
			e.stats.DropToken++
			return
		}
		var c wire.Connect
		c.Parse(body)
		e.onConnect(&c, p)
		return
	}
	s := e.find(h.Session, token, p.From)
	if s == nil {
		e.onStranger(op, token, body, p.From)
		return
	}
	s.live.Heard(e.now)
	if s.other != nil {
		s.other.watch.Heard(e.now)
	}
	switch op {
	case wire.OpChallenge, wire.OpAccept, wire.OpRefuse:
		if s.dialer != nil {
			e.onDialAnswer(s, op, body)
		}
	default:
		e.onAlive(s, op, body)
	}
}

// find returns the session that a management packet is for, or nil.
func (e *engine) find(number, token uint32, from transport.Addr) *Session {
	if number >= uint32(len(e.sessions)) {
		return nil
	}
	s := e.sessions[number]
	if s == nil || s.token != token || s.peer != from {
		return nil
	}
	return s
}

// onStranger answers packets for sessions that are not known here, so that a peer
// of an earlier incarnation learns of it. It keeps no state. A damaged packet of a
// living session gets no answer: a Reset would end that session.
func (e *engine) onStranger(op wire.Op, token uint32, body []byte, from transport.Addr) {
	e.stats.DropNoSession++
	if e.resetsLeft == 0 || op != wire.OpPing && op != wire.OpDisconnect {
		return
	}
	var a wire.Alive
	if a.Parse(body); a.To != token {
		return
	}
	e.resetsLeft--
	answer := wire.OpReset
	if op == wire.OpDisconnect {
		answer = wire.OpDisconnectAck
	}
	session.Answer(answer, &a, e.out)
	e.send(from)
}

// send addresses packets that belong to no session.
func (e *engine) send(to transport.Addr) { e.out.Address(to) }

func (e *engine) onAlive(s *Session, op wire.Op, body []byte) {
	var a wire.Alive
	a.Parse(body)
	switch op {
	case wire.OpPing:
		if s.state == sessConnected {
			s.live.Pong(a.Seq, e.out)
			e.collect(s)
		}
	case wire.OpReset:
		if s.other != nil {
			s.other.doubted()
		}
		e.fail(s, ErrPeerRestarted, SessionRestarted)
	case wire.OpDisconnect:
		session.Answer(wire.OpDisconnectAck, &a, e.out)
		e.collect(s)
		e.fail(s, fmt.Errorf("session %w by the peer", ErrClosed), SessionDisconnected)
	case wire.OpDisconnectAck:
		if s.state == sessClosing {
			e.forget(s)
		}
	}
}

// onConnect is the server's side of the handshake.
func (e *engine) onConnect(c *wire.Connect, p *transport.RxPacket) {
	addr := make([]byte, 0, 24)
	addr = p.From.Append(addr)
	if !e.cookies.Check(addr, c, e.now) {
		ch := wire.Challenge{Nonce: c.Nonce, Cookie: e.cookies.Make(addr, c, e.now)}
		e.out.Mgmt(wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, 0, ch.Put)
		e.send(p.From)
		return
	}
	key := connKey{p.From, c.Nonce}
	if s := e.byKey[key]; s != nil {
		e.accept(s, c) // the Accept was lost, or is still under way
		return
	}
	s, code := e.admit(c, p.From)
	if code != wire.CodeOK {
		e.stats.SessionsRefused++
		r := wire.Refuse{Nonce: c.Nonce, Code: code}
		e.out.Mgmt(wire.OpRefuse, c.Session, c.Token, wire.RefuseSize, 0, r.Put)
		e.send(p.From)
		return
	}
	s.key = key
	e.byKey[key] = s
	e.accept(s, c)
	e.notify(s, SessionConnected)
}

// admit makes the server's end of a session, or says why not.
func (e *engine) admit(c *wire.Connect, from transport.Addr) (*Session, wire.Code) {
	if e.refuseNew {
		return nil, wire.CodeShutdown
	}
	e.noteEpoch(from, c.Epoch)
	offer := session.Agree(c.Offer, e.offer(min(uint32(e.mtu), c.Offer.MTU)))
	params, err := session.ParamsOf(offer)
	if err != nil || c.Session == wire.NoSession {
		return nil, wire.CodeBadOffer
	}
	s := e.newSession(from, false)
	if s == nil {
		return nil, wire.CodeExhausted
	}
	s.offer, s.params, s.checksum, s.epoch = offer, params, offer.Checksum, c.Epoch
	s.sv.Init(params, from, c.Session, c.Token, e.pool, &e.refuse, &e.proto)
	s.state = sessConnected
	s.live = session.Liveness{Local: s.number, LocalToken: s.token, Remote: c.Session, RemoteToken: c.Token}
	s.live.Heard(e.now)
	e.addEpoch(from, c.Epoch)
	e.join(s)
	e.stats.SessionsOpened++
	return s, wire.CodeOK
}

// accept sends or repeats the Accept. A client that found the path's MTU smaller
// than first offered may say so until it uses the session.
func (e *engine) accept(s *Session, c *wire.Connect) {
	if c.Offer.MTU < s.offer.MTU && c.Offer.MTU >= session.MinMTU && s.sv.Unused() {
		s.offer.MTU = c.Offer.MTU
		s.params.PerPacket = int(c.Offer.MTU) - wire.HeaderSize
		s.sv.Params = s.params
	}
	a := wire.Accept{Nonce: c.Nonce, Epoch: e.epoch, Session: s.number, Token: s.token, Offer: s.offer}
	e.out.Mgmt(wire.OpAccept, c.Session, c.Token, wire.AcceptSize, int(s.offer.MTU), a.Put)
	e.collect(s)
}

// onDialAnswer is the client's side of the handshake.
func (e *engine) onDialAnswer(s *Session, op wire.Op, body []byte) {
	switch op {
	case wire.OpChallenge:
		var c wire.Challenge
		c.Parse(body)
		s.dialer.OnChallenge(&c, e.now, e.out)
		e.collect(s)
	case wire.OpRefuse:
		var r wire.Refuse
		r.Parse(body)
		if err, ok := s.dialer.OnRefuse(&r); ok {
			e.fail(s, err, SessionRefused)
		}
	case wire.OpAccept:
		var a wire.Accept
		a.Parse(body)
		params, rtt, ok, err := s.dialer.OnAccept(&a, e.now)
		switch {
		case !ok:
		case err != nil:
			e.fail(s, fmt.Errorf("%w: %w", ErrRefused, err), SessionRefused)
		default:
			e.opened(s, &a, params, rtt)
		}
	}
}

// opened makes a client session usable and starts what waits on it.
func (e *engine) opened(s *Session, a *wire.Accept, params session.Params, rtt int64) {
	s.dialer = nil
	s.state = sessConnected
	s.params, s.offer, s.checksum, s.epoch = params, a.Offer, params.Checksum, a.Epoch
	s.live = session.Liveness{Local: s.number, LocalToken: s.token, Remote: a.Session, RemoteToken: a.Token}
	s.live.Heard(e.now)
	e.join(s)
	e.stats.SessionsOpened++
	s.cl.Open(params, s.peer, a.Session, a.Token, rtt, e.now, e.out)
	e.collect(s)
	e.notify(s, SessionConnected)
}

// offer returns what this endpoint proposes for a session whose packets are up to mtu bytes.
func (e *engine) offer(mtu uint32) wire.Offer {
	return wire.Offer{
		Credits: uint16(e.credits(int(mtu))), Slots: uint16(e.cfg.Slots), MTU: mtu,
		MaxMessage: uint32(e.cfg.MaxMessage), Checksum: e.checksum,
	}
}

// Bounds of the credits that nobody has set. Small packets need more of them: 32 of 1500 bytes
// are less than what one segmented send takes.
const (
	windowBytes    = 256 << 10
	mostCredits    = 128
	sessionsInRing = 4 // with all their credits in use
)

// credits returns how many credits to propose with packets of up to mtu bytes.
func (e *engine) credits(mtu int) int {
	if e.cfg.Credits != 0 {
		return e.cfg.Credits
	}
	most := min(mostCredits, e.rxRing/sessionsInRing)
	return max(session.DefaultCredits, min(windowBytes/max(mtu, 1), most))
}
