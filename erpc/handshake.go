package erpc

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// handshakes holds what opens and ends sessions: the server's cookies, and the sessions that
// repeat a handshake packet, those that connect and those that have disconnected.
type handshakes struct {
	cookies   *session.Cookies
	epoch     uint64 // of this endpoint
	repeating []*Session
}

func newHandshakes(rng *rand.Rand) handshakes {
	h := handshakes{epoch: rng.Uint64() | 1}
	var secret [32]byte
	for i := range secret {
		secret[i] = byte(rng.Uint32())
	}
	h.cookies = session.NewCookies(secret)
	return h
}

// dial makes a client session and starts to connect it. It gives up after limit.
func (e *engine) dial(to transport.Addr, limit time.Duration) (*Session, error) {
	if e.closing {
		return nil, ErrClosed
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, ErrExhausted
	}
	path := e.port.pathTo(to)
	plan := e.paths.plan(&path)
	s := newClientSession(e)
	s.plan = plan
	s.cl.Init(to, e.table.next(), e.rng.Uint32(), plan.timing, e.cfg.MaxQueue,
		e.pool, plan.pacing, &e.proto)
	e.table.add(s)
	c := wire.Connect{
		Nonce: e.rng.Uint64(), Epoch: e.shakes.epoch, Session: s.end.Local, Token: s.end.LocalToken,
		Offer: e.paths.offer(e.paths.limit(&path), path.Checksummed),
	}
	timing := plan.timing
	timing.ConnectTimeout = limit
	s.dialer = session.NewDialer(to, c, timing, e.in.Now)
	e.shakes.repeating = append(e.shakes.repeating, s)
	_ = s.dialer.Tick(e.in.Now, e.out) // cannot time out yet
	return s, nil
}

// onConnect is the server's side of the handshake.
func (e *engine) onConnect(c *wire.Connect, p *transport.RxPacket) {
	cookies := e.shakes.cookies
	addr := p.From.Append(make([]byte, 0, 24))
	if !cookies.Check(addr, c, e.in.Now) {
		ch := wire.Challenge{Nonce: c.Nonce, Cookie: cookies.Make(addr, c, e.in.Now)}
		e.out.Mgmt(&p.From, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, 0, ch.Put)
		return
	}
	key := connKey{p.From, c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		e.accept(s, c) // the Accept was lost, or is still under way
		return
	}
	s, code := e.admit(c, p.From)
	if code != wire.CodeOK {
		e.stats.SessionsRefused++
		r := wire.Refuse{Nonce: c.Nonce, Code: code}
		e.out.Mgmt(&p.From, wire.OpRefuse, c.Session, c.Token, wire.RefuseSize, 0, r.Put)
		return
	}
	e.table.addKey(key, s)
	e.accept(s, c)
	e.out.Opened(s.end.Local)
}

// admit makes the server's end of a session, or says why not.
func (e *engine) admit(c *wire.Connect, from transport.Addr) (*Session, wire.Code) {
	if e.refusing {
		return nil, wire.CodeShutdown
	}
	if e.peers.noteEpoch(from, c.Epoch) {
		e.timers.nextSweep = e.in.Now
	}
	path := e.port.pathTo(from)
	mine := e.paths.offer(int(min(uint32(e.paths.mtu), c.Offer.MTU)), path.Checksummed)
	params, err := session.ParamsOf(session.Agree(c.Offer, mine))
	if err != nil || c.Session == wire.NoSession {
		return nil, wire.CodeBadOffer
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, wire.CodeExhausted
	}
	s := newServerSession(e)
	s.shared, s.epoch, s.state = path.Shared, c.Epoch, sessConnected
	s.sv.Init(session.End{
		Peer: from, Local: e.table.next(), LocalToken: e.rng.Uint32(),
		Remote: c.Session, RemoteToken: c.Token, Params: params,
	}, e.pool, &e.refusals, &e.proto)
	e.table.add(s)
	s.live.Heard(e.in.Now)
	e.peers.addEpoch(from, c.Epoch)
	e.peers.join(s, e.in.Now)
	e.stats.SessionsOpened++
	return s, wire.CodeOK
}

// accept sends or repeats the Accept. A client that found the path's MTU smaller
// than first offered may say so until it uses the session.
func (e *engine) accept(s *Session, c *wire.Connect) {
	s.sv.LowerMTU(c.Offer.MTU)
	a := wire.Accept{
		Nonce: c.Nonce, Epoch: e.shakes.epoch, Session: s.end.Local, Token: s.end.LocalToken,
		Offer: s.end.Offer(),
	}
	size := int(a.Offer.MTU)
	e.out.Mgmt(&s.end.Peer, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, size, a.Put)
}

// onDialAnswer is the client's side of the handshake.
func (e *engine) onDialAnswer(s *Session, op wire.Op, body []byte) {
	switch op {
	case wire.OpChallenge:
		var c wire.Challenge
		c.Parse(body)
		s.dialer.OnChallenge(&c, e.in.Now, e.out)
	case wire.OpRefuse:
		var r wire.Refuse
		r.Parse(body)
		if err, ok := s.dialer.OnRefuse(&r); ok {
			e.end(s, ownError(err), SessionRefused)
		}
	case wire.OpAccept:
		var a wire.Accept
		a.Parse(body)
		params, rtt, ok, err := s.dialer.OnAccept(&a, e.in.Now)
		switch {
		case !ok:
		case err != nil:
			e.end(s, fmt.Errorf("%w: %w", ErrRefused, err), SessionRefused)
		default:
			s.dialer = nil
			s.state = sessConnected
			s.epoch = a.Epoch
			s.live.Heard(e.in.Now)
			e.peers.join(s, e.in.Now)
			e.stats.SessionsOpened++
			s.cl.Open(params, a.Session, a.Token, rtt, e.in.Now, e.out)
		}
	}
}

// end ends a session: its requests fail with err, its buffers come back, and then the
// application is told fate. Queues may refer to the buffers, so a flush comes first.
func (e *engine) end(s *Session, err error, fate SessionEvent) {
	switch s.state {
	case sessEnding, sessDead:
		return
	case sessClosing:
		e.forget(s) // the application knows already
		return
	}
	s.state = sessEnding
	s.err, s.fate, s.dialer = err, fate, nil
	e.out.Flush()
	if s.sv != nil {
		s.sv.Close(e.out)
	} else {
		s.cl.Close(err, e.out)
	}
}

// closeSession ends a session from this side. A peer that knows it is told until it answers.
func (e *engine) closeSession(s *Session) {
	if s.state == sessClosing {
		return
	}
	s.tell = s.state == sessConnected
	e.end(s, ErrClosed, SessionClosed)
}

// closeAll ends all sessions from this side, for good.
func (e *engine) closeAll() {
	e.refusing, e.closing = true, true
	for _, s := range e.table.byNumber {
		if s != nil {
			e.closeSession(s)
		}
	}
	e.settle()
}

// ended follows end when the outcomes of all requests have been acted on.
func (e *engine) ended(s *Session) {
	if s.tell {
		s.state = sessClosing
		s.lingerAt = e.in.Now.Add(e.cfg.Timing.DisconnectLinger)
		e.disconnect(s)
		e.shakes.repeating = append(e.shakes.repeating, s)
	} else {
		e.forget(s)
	}
	if s.fate != SessionClosed {
		e.cfg.Logger.Info("session ended",
			"peer", s.end.Peer.String(), "event", s.fate.String(), "error", s.err)
	}
	e.notify(s, s.fate)
}

func (e *engine) disconnect(s *Session) {
	s.nextAt = e.in.Now.Add(e.cfg.Timing.ConnectRetry)
	s.live.Disconnect(s.end, e.out)
}

// forget removes a session from the table; its number can be used again.
func (e *engine) forget(s *Session) {
	s.state = sessDead
	e.table.remove(s)
	e.stats.SessionsEnded++
	e.peers.leave(s)
	if s.sv != nil {
		e.peers.dropEpoch(s.end.Peer)
	}
}

// repeat repeats the handshake packets that are due.
func (e *engine) repeat() {
	h := &e.shakes
	for i := 0; i < len(h.repeating); {
		s := h.repeating[i]
		switch {
		case s.state == sessConnecting:
			if err := s.dialer.Tick(e.in.Now, e.out); err != nil {
				e.end(s, ownError(err), SessionRefused)
			}
		case s.state == sessClosing && e.in.Now >= s.lingerAt:
			e.forget(s)
		case s.state == sessClosing && e.in.Now >= s.nextAt:
			e.disconnect(s)
		}
		if s.state == sessConnecting || s.state == sessClosing {
			i++
			continue
		}
		last := len(h.repeating) - 1
		h.repeating[i] = h.repeating[last]
		h.repeating[last] = nil
		h.repeating = h.repeating[:last]
	}
}
