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
	connects  []connectPacket // Connects of the burst at hand
	early     []connectPacket // Crypto packets in it that may belong to them
	budgets   budgets
}

func newHandshakes(rng *rand.Rand) handshakes {
	h := handshakes{epoch: rng.Uint64() | 1, budgets: newBudgets()}
	var secret [16]byte
	for i := range secret {
		secret[i] = byte(rng.Uint32())
	}
	h.cookies = session.NewCookies(secret)
	return h
}

// dial makes a client session and starts to connect it. Host is the server's name, "" if it was
// given by its address. It gives up after limit.
func (e *engine) dial(to transport.Addr, host string, limit time.Duration) (*Session, error) {
	return e.dialLoop(to, host, 0, limit)
}

// dialLoop is dial to a loop of the server, 0 for any. If that does not run the server chooses one.
func (e *engine) dialLoop(
	to transport.Addr, host string, loop uint8, limit time.Duration,
) (*Session, error) {
	if e.closing {
		return nil, ErrClosed
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, ErrExhausted
	}
	path := e.port.pathTo(to)
	s := e.newDial(to, &path)
	s.host = host
	e.connect(s, to, loop, &path, limit)
	e.handshakes.repeating = append(e.handshakes.repeating, s)
	return s, nil
}

// dialName makes a client session to an address that is not known yet. It gives up after limit.
func (e *engine) dialName(host string, limit time.Duration) (*Session, error) {
	if e.closing {
		return nil, ErrClosed
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, ErrExhausted
	}
	path := e.port.pathTo(transport.Addr{})
	s := e.newDial(transport.Addr{}, &path)
	s.host = host
	s.nextAt = e.in.Now.Add(limit)
	e.handshakes.repeating = append(e.handshakes.repeating, s)
	return s, nil
}

// named takes the address of a session that dialName made, or the reason why there is none.
func (e *engine) named(s *Session, to transport.Addr, err error) {
	if s.state != sessConnecting {
		return // it was closed, or took too long
	}
	if err != nil {
		e.end(s, err, SessionRefused)
		e.settle()
		return
	}
	path := e.port.pathTo(to)
	s.plan = e.paths.plan(&path)
	s.cl.Readdress(to, s.plan.timing, s.plan.pacing)
	s.showPeer()
	e.connect(s, to, 0, &path, max(s.nextAt.Sub(e.in.Now), 1))
}

// errNoIndex means that no index is free for another association.
var errNoIndex = fmt.Errorf("%w: an endpoint has at most %d associations", ErrExhausted, maxPlaces)

// newDial makes a client session.
func (e *engine) newDial(to transport.Addr, path *transport.Path) *Session {
	s := newClientSession(e)
	s.plan = e.paths.plan(path)
	s.cl.Init(to, e.table.next(), e.rng.Uint32(), s.plan.timing, e.cfg.MaxQueue,
		e.pool, s.plan.pacing, &e.proto)
	s.showPeer()
	e.table.add(s)
	return s
}

// connect sends a session's first Connect, to a loop of the server or, if that is 0, to any.
func (e *engine) connect(
	s *Session, to transport.Addr, loop uint8, path *transport.Path, limit time.Duration,
) {
	c := wire.Connect{
		Nonce: e.rng.Uint64(), Epoch: e.handshakes.epoch, Session: s.end.Local, Token: s.end.LocalToken,
		Offer: e.paths.offer(e.paths.limit(path)-e.recordLayer.overhead, path),
	}
	timing := s.plan.timing
	timing.ConnectTimeout = limit
	s.dialer = session.NewDialer(to, c, timing, e.in.Now)
	s.dialer.Overhead, s.dialer.Loop, s.dialer.Version = e.recordLayer.overhead, loop, e.cfg.newest
	if e.security != nil && !e.guardDial(s, path) {
		e.end(s, errNoIndex, SessionRefused)
		return
	}
	_ = s.dialer.Tick(e.in.Now, e.out) // cannot time out yet
}

// onDialAnswer is the client's side of the handshake.
func (e *engine) onDialAnswer(s *Session, op wire.Op, body []byte) {
	switch op {
	case wire.OpChallenge:
		var c wire.Challenge
		c.Parse(body)
		if s.handshake != nil {
			e.onChallenge(s, &c, body[wire.ChallengeSize:])
			return
		}
		s.dialer.OnChallenge(&c, e.in.Now, e.out)
	case wire.OpRefuse:
		var r wire.Refuse
		r.Parse(body)
		if err, ok := s.dialer.OnRefuse(&r); ok {
			err = refusalError(&r, err, body[wire.RefuseSize:])
			if h := s.handshake; h != nil && h.begun() && h.hs.Unshown() {
				err = fmt.Errorf("%w; the server asks for other certificates than this side has", err)
			}
			e.end(s, err, SessionRefused)
		}
	case wire.OpAccept:
		var a wire.Accept
		a.Parse(body)
		if wire.CheckExtensions(body[wire.AcceptSize:]) != nil {
			e.stats.DropMalformed++
			return
		}
		params, rtt, ok, err := s.dialer.OnAccept(&a, e.in.Now)
		switch {
		case !ok:
		case err != nil:
			e.end(s, fmt.Errorf("%w: %w", ErrRefused, err), SessionRefused)
		default:
			with := e.acceptedBy(s, &a)
			if with == nil {
				e.stats.DropSealed++
				return
			}
			s.dialer = nil
			s.state = sessConnected
			s.epoch = with.epoch
			s.live.Heard(e.in.Now)
			if s.handshake != nil {
				delete(e.security.dials, s.handshake.nonce)
				s.handshake = nil
			}
			e.assocs.join(s, with, &params, e.in.Now)
			e.stats.SessionsOpened++
			s.cl.Open(params, a.Session, a.Token, rtt, e.in.Now, e.out)
		}
	}
}

// end ends a session: its requests fail with err, its buffers come back, and then the application
// is told fate. Queues may refer to the buffers, so a flush comes first. A server session that has
// answered nothing has none there, and what else is queued leaves together.
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
	if s.sv == nil || s.sv.Queued() {
		e.out.Flush()
	}
	if s.sv != nil {
		if s.tell {
			s.srv.taken = s.sv.AppendTaken(nil, true)
		}
		s.srv.jobs.cancelAll()
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
	e.closeSessions()
	if e.security != nil {
		e.security.close()
	}
	e.settle()
}

// closeSessions ends all sessions from this side.
func (e *engine) closeSessions() {
	for _, s := range e.table.byNumber {
		if s != nil {
			e.closeSession(s)
		}
	}
}

// ended follows end when the outcomes of all requests have been acted on.
func (e *engine) ended(s *Session) {
	if s.tell {
		s.state = sessClosing
		s.lingerAt = e.in.Now.Add(e.cfg.Timing.DisconnectLinger)
		e.disconnect(s)
		e.handshakes.repeating = append(e.handshakes.repeating, s)
	} else {
		e.forget(s)
	}
	if s.fate != SessionClosed && !s.hidden {
		e.cfg.Logger.Info("session ended",
			"peer", s.end.Peer.String(), "event", s.fate.String(), "error", s.err)
	}
	e.notify(s, s.fate)
}

func (e *engine) disconnect(s *Session) {
	var taken []byte
	if s.srv != nil {
		taken = s.srv.taken
	}
	if e.closing {
		s.live.Farewell(s.end, taken, e.out)
		return
	}
	s.nextAt = e.in.Now.Add(e.cfg.Timing.ConnectRetry)
	s.live.Disconnect(s.end, taken, e.out)
}

// acceptedBy returns the association of a session that the server accepts, nil if it may not.
func (e *engine) acceptedBy(s *Session, a *wire.Accept) *association {
	if s.handshake == nil {
		return e.assocs.plainFor(peerKey{s.end.Peer, a.Epoch}, wire.LoopOf(a.Session))
	}
	with := e.assocs.find(s.end.Via)
	if with == nil || !s.handshake.opening || a.Epoch != with.epoch ||
		a.Offer.Features&wire.FeatureSeal == 0 {
		return nil
	}
	return with
}

// forget removes a session from the table; its number can be used again.
func (e *engine) forget(s *Session) {
	s.state = sessDead
	e.table.remove(s)
	e.stats.SessionsEnded++
	e.assocs.leave(s, e.in.Now)
	if s.handshake != nil {
		e.abandonHandshake(s)
	}
	if s.sv != nil {
		if s.end.Via == 0 {
			e.assocs.dropEpoch(loopAddr{s.end.Peer, wire.LoopOf(s.end.Remote)})
		}
		e.quotas.leave(s)
	}
}

// repeat repeats the handshake packets that are due. First Connects beyond the budget count as sent
// and lost: many sessions that dial together do not flood a server that cannot answer them.
func (e *engine) repeat() {
	h, now := &e.handshakes, e.in.Now
	for i := 0; i < len(h.repeating); {
		s := h.repeating[i]
		switch {
		case s.state == sessConnecting && s.dialer == nil: // its address is not known
			if now >= s.nextAt {
				e.end(s, fmt.Errorf("%w: no answer", ErrResolve), SessionRefused)
			}
		case s.state == sessConnecting && s.dialer.Repeats(now) && !h.budgets.repeats.take(now):
			s.dialer.Skip(now)
		case s.state == sessConnecting && s.handshake != nil:
			e.repeatHandshake(s)
		case s.state == sessConnecting:
			if err := s.dialer.Tick(now, e.out); err != nil {
				e.end(s, ownError(err), SessionRefused)
			}
		case s.state == sessClosing && now >= s.lingerAt:
			e.forget(s)
		case s.state == sessClosing && now >= s.nextAt:
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
