package erpc

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
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
	asked     []connectPacket // Connects of the burst at hand
	budget    budget          // of Connects that are looked at
}

// connectPacket is a Connect that waits until the other packets of its burst have been handled.
type connectPacket struct {
	*transport.RxPacket
	session uint32 // in its header
	size    int    // of its body, bytes
}

// Connects that an endpoint looks at. Others are dropped for the price of reading their headers:
// clients repeat them. Whoever sends this many takes a few per cent of a core.
const (
	connectsPerSecond = 100_000
	connectsAtOnce    = 1 << 14
)

// budget is a token bucket.
type budget struct {
	left int64
	at   monotime.Time // when left was right
}

// take takes one token of rate tokens a second, of which up to most gather. It reports false if
// there is none.
func (b *budget) take(now monotime.Time, rate, most int64) bool {
	if b.left < most {
		every := monotime.Time(time.Second) / monotime.Time(rate)
		if got := int64((now - b.at) / every); b.left+got >= most {
			b.left, b.at = most, now
		} else {
			b.left, b.at = b.left+got, b.at+monotime.Time(got)*every
		}
	} else {
		b.at = now
	}
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

func newHandshakes(rng *rand.Rand) handshakes {
	h := handshakes{epoch: rng.Uint64() | 1, budget: budget{left: connectsAtOnce}}
	var secret [16]byte
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
		Offer: e.paths.offer(e.paths.limit(&path)-e.seam.overhead, path.Checksummed),
	}
	timing := plan.timing
	timing.ConnectTimeout = limit
	s.dialer = session.NewDialer(to, c, timing, e.in.Now)
	s.dialer.Overhead = e.seam.overhead
	e.shakes.repeating = append(e.shakes.repeating, s)
	_ = s.dialer.Tick(e.in.Now, e.out) // cannot time out yet
	return s, nil
}

// answerConnects takes the Connects of a burst, behind its other packets.
func (e *engine) answerConnects() {
	h := &e.shakes
	for i := range h.asked {
		if p := &h.asked[i]; h.budget.take(e.in.Now, connectsPerSecond, connectsAtOnce) {
			e.onConnect(p)
		} else {
			e.stats.DropConnects++
		}
		h.asked[i] = connectPacket{}
	}
	h.asked = h.asked[:0]
}

// onConnect is the server's side of the handshake.
func (e *engine) onConnect(p *connectPacket) {
	body := p.Data[wire.HeaderSize:][:p.size]
	var c wire.Connect
	c.Parse(body)
	cookies := e.shakes.cookies
	// A cookie is a stronger checksum than the packet's, but for the MTU and the padding.
	proved := c.Cookie != [wire.CookieSize]byte{} && cookies.Check(&p.From, &c, body, e.in.Now)
	small := len(p.Data) <= 2*(wire.HeaderSize+wire.ConnectSize)
	if p.session != wire.NoSession || (proved || small) && wire.OpenMgmt(p.Data) != 0 {
		e.stats.DropToken++
		return
	}
	if !proved {
		ch := wire.Challenge{Nonce: c.Nonce, Cookie: cookies.Make(&p.From, body, e.in.Now)}
		e.out.Mgmt(&p.From, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, 0, ch.Put)
		return
	}
	if len(p.Data) < int(c.Offer.MTU)+e.seam.overhead || wire.CheckExtensions(body[wire.ConnectSize:]) != nil {
		e.stats.DropMalformed++ // the answer would be larger than what was received
		return
	}
	e.onProved(&c, p.From)
}

// onProved takes a Connect whose sender has proved its address.
func (e *engine) onProved(c *wire.Connect, from transport.Addr) {
	key := connKey{from, c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		e.accept(s, c) // the Accept was lost, or is still under way
		return
	}
	s, code := e.admit(c, from)
	if code != wire.CodeOK {
		e.stats.SessionsRefused++
		r := wire.Refuse{Nonce: c.Nonce, Code: code}
		e.out.Mgmt(&from, wire.OpRefuse, c.Session, c.Token, wire.RefuseSize, 0, r.Put)
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
	path := e.port.pathTo(from)
	mine := e.paths.offer(int(min(uint32(e.paths.mtu-e.seam.overhead), c.Offer.MTU)), path.Checksummed)
	params, err := session.ParamsOf(session.Agree(c.Offer, mine))
	if err != nil || c.Session >= wire.NoSession {
		return nil, wire.CodeBadOffer
	}
	if !e.shares.admits(from, e.table.live, e.cfg.MaxSessions) {
		if e.table.live < e.cfg.MaxSessions {
			e.stats.SessionsOverShare++
		}
		return nil, wire.CodeExhausted
	}
	if e.peers.noteEpoch(from, c.Epoch) {
		e.timers.hurry()
	}
	s := newServerSession(e)
	s.shared, s.epoch, s.state = path.Shared, c.Epoch, sessConnected
	s.sv.Init(session.End{
		Peer: from, Local: e.table.next(), LocalToken: e.rng.Uint32(),
		Remote: c.Session, RemoteToken: c.Token, Params: params,
	}, session.Timing(e.cfg.Timing), e.pool, &e.refusals, &e.proto)
	e.table.add(s)
	e.shares.join(s)
	s.live.Heard(e.in.Now)
	e.peers.addEpoch(from, c.Epoch)
	e.peers.join(s, &e.seam, e.in.Now)
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
	size := int(a.Offer.MTU) + e.seam.overhead
	e.out.Mgmt(&s.end.Peer, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, size, a.Put)
}

// onOtherVersion takes a packet of another version of the protocol: a Connect, which is told so, or
// the refusal of one from here. Both are few, and an answer is not larger than the packet.
func (e *engine) onOtherVersion(p *transport.RxPacket) {
	if e.timers.resetsLeft == 0 {
		return
	}
	if asked, nonce, ok := wire.AsksVersion(p.Data); ok {
		e.timers.resetsLeft--
		e.out.RefuseVersion(&p.From, &wire.VersionRefusal{
			Nonce: nonce, Asked: asked, Least: wire.Version, Most: wire.Version,
		})
		return
	}
	var r wire.VersionRefusal
	if !r.Parse(p.Data) {
		return
	}
	e.timers.resetsLeft--
	for _, s := range e.shakes.repeating {
		if s.dialer == nil || s.end.Peer != p.From {
			continue
		}
		if err, ok := s.dialer.OnVersion(&r); ok {
			e.end(s, ownError(err), SessionRefused)
			return
		}
	}
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
			s.dialer = nil
			s.state = sessConnected
			s.epoch = a.Epoch
			s.live.Heard(e.in.Now)
			e.peers.join(s, &e.seam, e.in.Now)
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
	e.peers.leave(s, &e.seam)
	if s.sv != nil {
		e.peers.dropEpoch(s.end.Peer)
		e.shares.leave(s)
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
