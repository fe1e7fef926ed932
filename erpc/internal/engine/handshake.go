package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
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
	repeating []*Conn
	connects  []connectPacket // Connects of the burst at hand
	early     []connectPacket // Crypto packets in it that may belong to them
	budgets   budgets
	shut      [16]shutPort
	nextShut  int             // the place for another one
	abandoned []abandonedDial // the first one to be forgotten first
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

// Dial makes a client session and starts to connect it. Host is the server's name, "" if it was
// given by its address. It gives up after limit.
func (e *Engine) Dial(to transport.Addr, host string, limit time.Duration) (*Conn, error) {
	return e.dialLoop(to, host, 0, limit)
}

// dialLoop is Dial to a loop of the server, 0 for any. If that does not run the server chooses one.
func (e *Engine) dialLoop(
	to transport.Addr, host string, loop uint8, limit time.Duration,
) (*Conn, error) {
	if e.closing {
		return nil, ErrClosed
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, ErrExhausted
	}
	path := e.port.PathTo(to)
	s := e.newDial(to, &path)
	s.host = host
	e.connect(s, to, loop, &path, limit)
	e.handshakes.repeating = append(e.handshakes.repeating, s)
	return s, nil
}

// DialName makes a client session to an address that is not known yet. It gives up after limit.
func (e *Engine) DialName(host string, limit time.Duration) (*Conn, error) {
	if e.closing {
		return nil, ErrClosed
	}
	if e.table.live >= e.cfg.MaxSessions {
		return nil, ErrExhausted
	}
	path := e.port.PathTo(transport.Addr{})
	s := e.newDial(transport.Addr{}, &path)
	s.host = host
	s.nextAt = e.in.Now.Add(limit)
	e.handshakes.repeating = append(e.handshakes.repeating, s)
	return s, nil
}

// Named takes the address of a session that DialName made, or the reason why there is none.
func (e *Engine) Named(s *Conn, to transport.Addr, err error) {
	if s.state != connecting {
		return // it was closed, or took too long
	}
	if err != nil {
		e.end(s, err, Refused)
		return
	}
	path := e.port.PathTo(to)
	s.plan = e.paths.plan(&path)
	s.Client.Readdress(to, s.plan.timing, s.plan.pacing)
	s.showPeer()
	e.connect(s, to, 0, &path, max(s.nextAt.Sub(e.in.Now), 1))
}

// errNoIndex means that no index is free for another association.
var errNoIndex = fmt.Errorf("%w: an endpoint has at most %d associations", ErrExhausted, maxPlaces)

// newDial makes a client session.
func (e *Engine) newDial(to transport.Addr, path *transport.Path) *Conn {
	s := e.cfg.NewConn(true)
	s.plan = e.paths.plan(path)
	s.Client.Init(to, e.table.next(), e.rng.Uint32(), s.plan.timing, e.cfg.MaxQueue,
		e.pool, s.plan.pacing, &e.proto)
	s.showPeer()
	e.table.add(s)
	return s
}

// connect sends a session's first Connect, to a loop of the server or, if that is 0, to any.
func (e *Engine) connect(
	s *Conn, to transport.Addr, loop uint8, path *transport.Path, limit time.Duration,
) {
	c := wire.Connect{
		Nonce: e.rng.Uint64(), Epoch: e.handshakes.epoch, Session: s.End.Local, Token: s.End.LocalToken,
		Offer: e.paths.offer(e.paths.limit(path)-e.recordLayer.overhead, e.table.live-1, path),
	}
	timing := s.plan.timing
	timing.ConnectTimeout = limit
	s.dialer = session.NewDialer(to, c, timing, e.in.Now)
	s.dialer.Overhead, s.dialer.Loop, s.dialer.Version = e.recordLayer.overhead, loop, e.cfg.Newest
	if e.security != nil && !e.guardDial(s, path) {
		e.end(s, errNoIndex, Refused)
		return
	}
	_ = s.dialer.Tick(e.in.Now, e.Out) // cannot time out yet
}

// onDialAnswer is the client's side of the handshake.
func (e *Engine) onDialAnswer(s *Conn, op wire.Op, body []byte) {
	switch op {
	case wire.OpChallenge:
		var c wire.Challenge
		c.Parse(body)
		if p := e.handshakes.shutAt(&s.End.Peer); p != nil && c.Nonce == s.dialer.Connect.Nonce {
			p.bounces = 0
		}
		if s.handshake != nil {
			e.onChallenge(s, &c, body[wire.ChallengeSize:])
			return
		}
		s.dialer.OnChallenge(&c, e.in.Now, e.Out)
	case wire.OpRefuse:
		var r wire.Refuse
		r.Parse(body)
		if err, ok := s.dialer.OnRefuse(&r); ok {
			err = refusalError(&r, err, body[wire.RefuseSize:])
			if h := s.handshake; h != nil && h.begun() && h.hs.Unshown() {
				err = fmt.Errorf("%w; the server asks for other certificates than this side has", err)
			}
			e.end(s, err, Refused)
		}
	case wire.OpAccept:
		var a wire.Accept
		a.Parse(body)
		if wire.CheckExtensions(body[wire.AcceptSize:]) != nil {
			e.stats.DropMalformed++
			return
		}
		e.onAccept(s, &a)
	}
}

// onAccept opens a session that its server has accepted.
func (e *Engine) onAccept(s *Conn, a *wire.Accept) {
	if e.security != nil && s.handshake == nil && !s.welcome && e.security.keys.cfg.Authorize != nil {
		e.judgeServer(s, a) // a process of this user
		return
	}
	params, rtt, ok, err := s.dialer.OnAccept(a, e.in.Now)
	switch {
	case !ok:
	case err != nil:
		e.end(s, fmt.Errorf("%w: %w", ErrRefused, err), Refused)
		e.decline(a, s.End.LocalToken, &s.End.Peer, s.End.Via)
	default:
		with := e.acceptedBy(s, a)
		if with == nil {
			e.stats.DropSealed++
			return
		}
		if s.welcome {
			rtt = 0 // it has the time of the question in it
		}
		if rtt == 0 && !s.welcome {
			s.Client.OpenedIn(s.dialer.Proving(e.in.Now))
		}
		s.dialer = nil
		s.state = connected
		s.epoch = with.epoch
		s.live.Heard(e.in.Now)
		if s.handshake != nil {
			delete(e.security.dials, s.handshake.nonce)
			s.handshake = nil
		}
		e.assocs.join(s, with, &params, e.in.Now)
		e.stats.SessionsOpened++
		e.paths.window(s.Client, &params, s.plan.hosts)
		s.Client.Open(params, a.Session, a.Token, rtt, e.in.Now, e.Out)
	}
}

// judgeServer asks, once, whether a server is welcome that is a process of this user.
func (e *Engine) judgeServer(s *Conn, a *wire.Accept) {
	if s.judged {
		return
	}
	accept, peer, k := *a, s.End.Peer, e.security.keys
	work := func(ctx context.Context) stepResult {
		return stepResult{err: k.authorize(ctx, localIdentity(peer, true))}
	}
	done := func(r stepResult) {
		if s.state == connecting && r.err == nil {
			s.welcome = true
			e.onAccept(s, &accept)
			return
		}
		if s.state == connecting {
			e.end(s, handshakeError(r.err), Refused)
		}
		e.decline(&accept, s.End.LocalToken, &peer, 0)
	}
	s.judged = e.step(e.cfg.Shares.Key(peer), nil, nil, work, done)
}

// end ends a session: its requests fail with err, its buffers come back, and then EventClosed tells
// the owner. Queues may refer to the buffers, so a flush comes first. A server session that has
// answered nothing has none there, and what else is queued leaves together.
func (e *Engine) end(s *Conn, err error, fate Fate) {
	switch s.state {
	case ending, dead:
		return
	case closing:
		e.forget(s) // the application knows already
		return
	}
	s.state = ending
	e.abandon(s)
	s.err, s.fate, s.dialer = err, fate, nil
	if s.Server == nil || s.Server.Queued() {
		e.Out.Flush()
	}
	if s.Server != nil {
		if s.tell {
			s.srv.taken = s.Server.AppendTaken(nil, true)
		}
		s.Server.Close(e.Out)
	} else {
		s.Client.Close(err, e.Out)
	}
}

// CloseConn ends a session from this side. A peer that knows it is told until it answers.
func (e *Engine) CloseConn(s *Conn) {
	if s.state == closing {
		return
	}
	s.tell = s.state == connected
	e.end(s, ErrClosed, Closed)
}

// CloseAll ends all sessions from this side, for good.
func (e *Engine) CloseAll() {
	e.refusing, e.closing = true, true
	e.CloseConns()
	for e.security != nil && e.security.halfOpen.expiry.first != nil {
		e.dropPending(e.security.halfOpen.expiry.first)
	}
}

// CloseConns ends all sessions from this side.
func (e *Engine) CloseConns() {
	for _, s := range e.table.byNumber {
		if s != nil {
			e.CloseConn(s)
		}
	}
}

// Ended takes EventClosed, which the owner hands on: all that the requests of a session led to has
// been acted on. It returns how the session ended.
func (e *Engine) Ended(s *Conn) Fate {
	if s.tell {
		s.state = closing
		s.lingerAt = e.in.Now.Add(e.cfg.Timing.DisconnectLinger)
		e.disconnect(s)
		e.handshakes.repeating = append(e.handshakes.repeating, s)
	} else {
		e.forget(s)
	}
	return s.fate
}

func (e *Engine) disconnect(s *Conn) {
	var taken []byte
	if s.srv != nil {
		taken = s.srv.taken
	}
	if e.closing {
		s.live.Farewell(s.End, taken, e.Out)
		return
	}
	s.nextAt = e.in.Now.Add(e.cfg.Timing.ConnectRetry)
	s.live.Disconnect(s.End, taken, e.Out)
}

// acceptedBy returns the association of a session that the server accepts, nil if it may not.
func (e *Engine) acceptedBy(s *Conn, a *wire.Accept) *association {
	if s.handshake == nil {
		return e.assocs.plainFor(peerKey{s.End.Peer, a.Epoch}, wire.LoopOf(a.Session))
	}
	with := e.assocs.find(s.End.Via)
	if with == nil || !s.handshake.opening || a.Epoch != with.epoch ||
		a.Offer.Features&wire.FeatureSeal == 0 {
		return nil
	}
	return with
}

// forget removes a session from the table; its number can be used again.
func (e *Engine) forget(s *Conn) {
	s.state = dead
	e.table.remove(s)
	e.stats.SessionsEnded++
	e.assocs.leave(s, e.in.Now)
	if s.handshake != nil {
		e.abandonHandshake(s)
	}
	if s.Server != nil {
		if s.End.Via == 0 {
			e.assocs.dropEpoch(loopAddr{s.End.Peer, wire.LoopOf(s.End.Remote)})
		}
		e.quotas.leave(s)
	}
}

// repeat repeats the handshake packets that are due. First Connects beyond the budget count as sent
// and lost: many sessions that dial together do not flood a server that cannot answer them.
func (e *Engine) repeat() {
	h, now := &e.handshakes, e.in.Now
	for i := 0; i < len(h.repeating); {
		s := h.repeating[i]
		if s.state == connecting && s.dialer != nil && s.dialer.Renews(now) {
			e.renewPort(s)
		}
		switch {
		case s.state == connecting && s.dialer != nil && e.stillShut(s):
			e.portClosed(s)
		case s.state == connecting && s.dialer == nil: // its address is not known
			if now >= s.nextAt {
				e.end(s, fmt.Errorf("%w: no answer", ErrResolve), Refused)
			}
		case s.state == connecting && s.dialer.Repeats(now) && !h.budgets.repeats.take(now):
			s.dialer.Skip(now)
		case s.state == connecting && s.handshake != nil:
			e.repeatHandshake(s)
		case s.state == connecting:
			if err := s.dialer.Tick(now, e.Out); err != nil {
				e.end(s, OwnError(err), Refused)
			}
		case s.state == closing && now >= s.lingerAt:
			e.forget(s)
		case s.state == closing && now >= s.nextAt:
			e.disconnect(s)
		}
		if s.state == connecting || s.state == closing {
			i++
			continue
		}
		last := len(h.repeating) - 1
		h.repeating[i] = h.repeating[last]
		h.repeating[last] = nil
		h.repeating = h.repeating[:last]
	}
}

// renewPort has the Connects of a session that nobody answers leave by another port: a translator
// may go on to lead the old one to a server that is gone, for as long as packets come from there.
// Sessions that are open with the address keep their port.
func (e *Engine) renewPort(s *Conn) {
	lives := func(c *Conn) bool { return c.state == connected }
	for _, p := range e.assocs.byAddr[s.End.Peer] {
		if slices.ContainsFunc(p.sessions, lives) {
			return
		}
	}
	if e.handshakes.budgets.renewals.take(e.in.Now) {
		e.port.Renew(s.End.Peer)
	}
}

// connectPacket is a Connect that waits until the other packets of its burst have been handled, or
// what follows it of the client's part of a handshake.
type connectPacket struct {
	*transport.RxPacket
	session uint32 // in its header
	size    int    // of its body, bytes
	version uint8
}

// Limits of the work that strangers can cause: per second, and at once after a rest. More packets
// are dropped when their header has been read: honest clients repeat them. A message to a stranger
// costs a few microseconds, the check of a cookie half a microsecond.
const (
	// first Connects that are answered, with a Challenge; all of them, with a refusal, where no
	// sessions are taken. At once: 20,000 sessions that dial
	firstsPerSecond, firstsAtOnce = 20_000, 20 << 10
	// those beyond that from addresses which have an association here: who forges one has to know it
	knownPerSecond, knownAtOnce = 50_000, 20 << 10
	// Connects with a cookie that are looked at. Good ones draw the only other answer.
	cookiesPerSecond, cookiesAtOnce = 200_000, 20 << 10
	// of those, Connects whose cookie is wrong that are answered, with another Challenge. Honest
	// clients need it when the server has restarted; forgers of cookies get no more.
	stalePerSecond, staleAtOnce = 2_000, 2_000
	// Connects of other versions that are refused, and refusals that are believed
	versionsPerSecond, versionsAtOnce = 8_000, 1_000
	// first Connects that this endpoint repeats, as a client
	repeatsPerSecond, repeatsAtOnce = 50_000, 1_000
	// sealed datagrams with an index that is not known, which are told so
	keylessPerSecond, keylessAtOnce = 8_000, 1_000
	// packets of dials that came back, which are looked for among all dials
	bouncesPerSecond, bouncesAtOnce = 2_000, 1_000
	// other ports that are asked for, where servers do not answer
	renewalsPerSecond, renewalsAtOnce = 100, 100
)

// budgets holds what strangers can make an endpoint do. Each kind has a budget of its own, so that
// a flood of one kind takes nothing from the others.
type budgets struct {
	firsts, known      budget
	cookies, stale     budget
	versions, refusals budget
	repeats, keyless   budget
	bounces, renewals  budget
}

// Of a port where nobody listens, the network sends packets back: ICMP "port unreachable". Anybody
// can forge that, but for the nonce of the Connect that it quotes: who repeats it could refuse the
// session as well. An attempt to connect ends when three packets to its address came back, and
// nothing else came from there. Hosts send few such messages, Linux six at once and then one a
// second, to all processes of another. So one that asks again soon ends with its first. And when
// one has come, silence counts as well: an attempt ends if there is no answer in the time that the
// message took, or in 20 ms.
const (
	bouncesNeeded = 3
	// shutFor is how long a packet that came back counts.
	shutFor = 2 * time.Second
	// minShutWait is how long such an attempt waits for an answer at least.
	minShutWait = 20 * time.Millisecond
)

// shutPort is an address from which Connects came back.
type shutPort struct {
	addr    transport.Addr
	at      monotime.Time // when the last one came
	bounces int
	wait    time.Duration // in which a server there would have answered
}

// shutAt returns what came back from an address, nil if there is nothing.
func (h *handshakes) shutAt(addr *transport.Addr) *shutPort {
	for i := range h.shut {
		if h.shut[i].addr == *addr && h.shut[i].at != 0 {
			return &h.shut[i]
		}
	}
	return nil
}

// bounced takes a packet of an attempt to connect that came back from the network.
func (e *Engine) bounced(hint *transport.Hint) {
	h, now, q := &e.handshakes, e.in.Now, hint.Quoted
	if len(q) < wire.HeaderSize+8 || !h.budgets.bounces.take(now) {
		return
	}
	nonce := binary.LittleEndian.Uint64(q[wire.HeaderSize:])
	i := slices.IndexFunc(h.repeating, func(c *Conn) bool {
		return c.dialer != nil && c.dialer.Connect.Nonce == nonce && c.End.Peer == hint.To
	})
	if i < 0 {
		return
	}
	p, d := h.shutPort(&hint.To, now), h.repeating[i].dialer
	if !d.Bounced(p.bounces+1 < bouncesNeeded, now) {
		return
	}
	if p.bounces == 0 {
		p.wait = max(minShutWait, 2*d.Waited(now))
	}
	p.bounces++
	if p.at = now; p.bounces < bouncesNeeded {
		return
	}
	for _, s := range h.repeating {
		if s.state == connecting && s.dialer != nil && s.End.Peer == hint.To {
			e.portClosed(s)
		}
	}
}

// shutPort returns what came back from an address lately.
func (h *handshakes) shutPort(addr *transport.Addr, now monotime.Time) *shutPort {
	p := h.shutAt(addr)
	if p == nil {
		p = &h.shut[h.nextShut%len(h.shut)]
		h.nextShut++
		*p = shutPort{addr: *addr}
	} else if now.Sub(p.at) > shutFor {
		p.bounces = 0
	}
	return p
}

// vacated notes that a peer is lost, since nobody listens at its port any more.
func (e *Engine) vacated(a *association) {
	p := e.handshakes.shutPort(&a.addr, e.in.Now)
	p.at, p.bounces, p.wait = e.in.Now, bouncesNeeded, max(minShutWait, 2*a.roundTrip())
}

// stillShut reports whether a session is being opened where nobody listened a short time ago, and
// has no answer yet though it had time for one.
func (e *Engine) stillShut(s *Conn) bool {
	p, now := e.handshakes.shutAt(&s.End.Peer), e.in.Now
	return p != nil && p.bounces > 0 && now.Sub(p.at) <= shutFor &&
		!s.dialer.Told && !s.dialer.Answered() && s.dialer.Waited(now) >= p.wait
}

// portClosed ends an attempt to connect to a closed port. One that persists goes on, and its owner
// gets EventUnreachable once.
func (e *Engine) portClosed(s *Conn) {
	switch {
	case !s.dialer.Persist:
		e.end(s, ErrPortClosed, Refused)
	case !s.dialer.Told:
		s.dialer.Told = true
		e.Out.Tell(session.EventUnreachable, s.End.Local)
	}
}

func newBudgets() budgets {
	return budgets{
		firsts:   newBudget(firstsPerSecond, firstsAtOnce),
		known:    newBudget(knownPerSecond, knownAtOnce),
		cookies:  newBudget(cookiesPerSecond, cookiesAtOnce),
		stale:    newBudget(stalePerSecond, staleAtOnce),
		versions: newBudget(versionsPerSecond, versionsAtOnce),
		refusals: newBudget(versionsPerSecond, versionsAtOnce),
		repeats:  newBudget(repeatsPerSecond, repeatsAtOnce),
		keyless:  newBudget(keylessPerSecond, keylessAtOnce),
		bounces:  newBudget(bouncesPerSecond, bouncesAtOnce),
		renewals: newBudget(renewalsPerSecond, renewalsAtOnce),
	}
}

// budget is a token bucket.
type budget struct {
	every monotime.Time // between two tokens
	max   int64         // tokens that gather
	left  int64
	at    monotime.Time // when left was right
}

func newBudget(perSecond, limit int64) budget {
	every := monotime.Time(time.Second) / monotime.Time(perSecond)
	return budget{every: every, max: limit, left: limit}
}

// fill adds what has gathered, and returns how many tokens there are.
func (b *budget) fill(now monotime.Time) int64 {
	if b.left < b.max {
		if got := int64((now - b.at) / b.every); b.left+got >= b.max {
			b.left, b.at = b.max, now
		} else {
			b.left, b.at = b.left+got, b.at+monotime.Time(got)*b.every
		}
	} else {
		b.at = now
	}
	return b.left
}

// take takes a token. It reports false if there is none.
func (b *budget) take(now monotime.Time) bool {
	if b.fill(now) == 0 {
		return false
	}
	b.left--
	return true
}

// HasConnects reports whether the burst at hand had Connects, for AnswerConnects.
func (e *Engine) HasConnects() bool { return len(e.handshakes.connects) > 0 }

// AnswerConnects takes the Connects of a burst, behind its other packets. If there is not enough
// for all, chance decides who gets it, not the order in which they came.
func (e *Engine) AnswerConnects() {
	h := &e.handshakes
	connects := h.connects
	if h.budgets.firsts.fill(e.in.Now) < int64(len(connects)) {
		e.rng.Shuffle(len(connects), func(i, j int) {
			connects[i], connects[j] = connects[j], connects[i]
		})
	}
	for i := range connects {
		if !e.onConnect(&connects[i]) {
			e.stats.DropConnects++
		}
		connects[i] = connectPacket{}
	}
	h.connects = connects[:0]
	for i := range h.early {
		e.onCrypto(h.early[i].RxPacket, h.early[i].body())
		h.early[i] = connectPacket{}
	}
	h.early = h.early[:0]
}

// body returns the packet's body.
func (p *connectPacket) body() []byte { return p.Data[wire.HeaderSize:][:p.size] }

// onConnect is the server's side of the handshake. It reports false if nothing is left for such a
// packet.
func (e *Engine) onConnect(p *connectPacket) bool {
	body := p.body()
	var c wire.Connect
	c.Parse(body)
	b, now, cookies := &e.handshakes.budgets, e.in.Now, e.handshakes.cookies
	first := c.Cookie == [wire.CookieSize]byte{} || e.cfg.DialOnly // which gives no cookies
	if first && !b.firsts.take(now) && !(e.knows(&p.From) && b.known.take(now)) ||
		!first && !b.cookies.take(now) {
		return false
	}
	// The cookie covers more than the packet's checksum does, except for the MTU and the padding.
	proved := !first && cookies.Check(&p.From, &c, body, now)
	if !first && !proved && !b.stale.take(now) {
		return false
	}
	if c.Session&wire.KeyPhase != 0 {
		e.stats.DropMalformed++ // no answer could be to it
		return true
	}
	small := len(p.Data) <= 2*(wire.HeaderSize+wire.ConnectSize)
	if p.session != wire.NoSession || (proved || small) && wire.OpenMgmt(p.Data) != 0 {
		e.stats.DropToken++
		return true
	}
	if e.cfg.DialOnly { // nothing more is looked at or kept: the answer is half of the question
		e.refuse(&c, &p.From, 0, p.version, wire.CodeNoHandler, "")
		return true
	}
	if here, gone := true, false; proved {
		if here, gone = e.placed(&c, p); !here && !gone {
			return true
		}
		proved = !gone
	}
	if !proved {
		e.challenge(&c, p, body)
		return true
	}
	seals := c.Offer.Features&wire.FeatureSeal != 0
	if old := p.version == wire.OldVersion || indexOf(body) == 0; e.security != nil && seals && old &&
		len(p.Data) >= session.MinMTU { // sealed packets of version 2 have another size, too
		e.refuse(&c, &p.From, 0, p.version, wire.CodeDenied, oldSeal)
		return true
	}
	whole := int(c.Offer.MTU)
	if seals {
		whole += e.recordLayer.overhead
	}
	if len(p.Data) < whole || wire.CheckExtensions(body[wire.ConnectSize:]) != nil {
		e.stats.DropMalformed++ // the answer would be larger than what was received
		return true
	}
	if e.security != nil {
		if e.trusts(&c, p.From) {
			e.onTrusted(&c, p)
		} else {
			e.onSecured(&c, p, body)
		}
		return true
	}
	if seals {
		e.refuse(&c, &p.From, 0, p.version, wire.CodeInsecure, "")
		return true
	}
	e.onProved(&c, p.From, p.version)
	return true
}

// knows reports whether an address has an association, so that Clients which dial from there again
// and again do not share the budget of strangers.
func (e *Engine) knows(from *transport.Addr) bool {
	return !e.cfg.DialOnly && len(e.assocs.byAddr[*from]) > 0
}

// challenge answers a Connect whose sender has not proved its address.
func (e *Engine) challenge(c *wire.Connect, p *connectPacket, body []byte) {
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: e.cookie(c, p, body)}
	put, size := ch.Put, wire.ChallengeSize
	if e.security != nil {
		size += whoSize
		put = func(b []byte) { ch.Put(b); e.putWho(b[wire.ChallengeSize:], &ch) }
	}
	e.Out.Mgmt(&p.From, 0, p.version, wire.OpChallenge, c.Session, c.Token, size, 0, put)
}

// onProved takes a Connect whose sender has proved its address.
func (e *Engine) onProved(c *wire.Connect, from transport.Addr, version uint8) {
	key := connKey{from: from, nonce: c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		if s.End.Version == version {
			e.accept(s, c) // the Accept was lost, or is still under way
		}
		return
	}
	with := &association{addr: from, epoch: c.Epoch, loop: wire.LoopOf(c.Session)}
	e.welcome(c, key, version, with)
}

// welcome makes the server's end of a session and answers, or refuses it and says why. With is its
// association, or for a peer in the clear what is known of one.
func (e *Engine) welcome(c *wire.Connect, key connKey, version uint8, with *association) {
	s, code := e.admit(c, version, with)
	if code != wire.CodeOK {
		e.refuse(c, &with.addr, with.field, version, code, "")
		return
	}
	e.table.addKey(key, s)
	e.accept(s, c)
	e.Out.Tell(session.EventOpened, s.End.Local)
}

// refuse refuses a session, and says why in a text that may be empty.
func (e *Engine) refuse(
	c *wire.Connect, to *transport.Addr, via uint32, version uint8, code wire.Code, text string,
) {
	e.stats.SessionsRefused++
	r := wire.Refuse{Nonce: c.Nonce, Code: code}
	text = text[:min(len(text), maxRefusal)]
	put := func(b []byte) { r.Put(b[:wire.RefuseSize]); copy(b[wire.RefuseSize:], text) }
	size := wire.RefuseSize + len(text)
	e.Out.Mgmt(to, via, version, wire.OpRefuse, c.Session, c.Token, size, 0, put)
}

// admit makes the server's end of a session, or says why not.
func (e *Engine) admit(
	c *wire.Connect, version uint8, with *association,
) (*Conn, wire.Code) {
	if e.refusing {
		return nil, wire.CodeShutdown
	}
	path := e.port.PathTo(with.addr)
	mtu := min(uint32(e.cfg.MTU-e.recordLayer.overhead), c.Offer.MTU)
	mine := e.paths.offer(int(mtu), e.table.live, &path)
	if with.keys != nil {
		sealedOffer(&mine)
	}
	params, err := session.ParamsOf(session.Agree(c.Offer, mine), version)
	if err != nil || !wire.IsSession(c.Session) {
		return nil, wire.CodeBadOffer
	}
	if !e.quotas.admits(e.quotas.cfg.keyOf(with), e.table.live, e.cfg.MaxSessions) {
		if e.table.live < e.cfg.MaxSessions {
			e.stats.SessionsOverShare++
		}
		return nil, wire.CodeExhausted
	}
	if with.keys == nil {
		sender := loopAddr{with.addr, with.loop}
		if e.assocs.noteEpoch(sender, c.Epoch) {
			e.timers.hurry()
		}
		e.assocs.addEpoch(sender, c.Epoch)
		with = e.assocs.plainFor(peerKey{with.addr, c.Epoch}, with.loop)
	}
	s := e.cfg.NewConn(false)
	s.Shared, s.state = path.Shared, connected
	s.Server.Init(session.End{
		Peer: with.addr, Local: e.table.next(), LocalToken: e.rng.Uint32(),
		Remote: c.Session, RemoteToken: c.Token, Params: params,
	}, e.cfg.Timing, e.pool, e.cfg.Refusals, &e.proto)
	s.showPeer()
	e.table.add(s)
	e.quotas.join(s, with)
	s.live.Heard(e.in.Now)
	e.assocs.join(s, with, &s.End.Params, e.in.Now)
	e.stats.SessionsOpened++
	return s, wire.CodeOK
}

// accept sends or repeats the Accept. A client that found the path's MTU smaller
// than first offered may say so until it uses the session.
func (e *Engine) accept(s *Conn, c *wire.Connect) {
	s.Server.LowerMTU(c.Offer.MTU)
	a := wire.Accept{
		Nonce: c.Nonce, Epoch: e.handshakes.epoch, Session: s.End.Local, Token: s.End.LocalToken,
		Offer: s.End.Offer(),
	}
	size := int(a.Offer.MTU)
	if s.End.Via == 0 {
		size += e.recordLayer.overhead
	}
	e.Out.Mgmt(&s.End.Peer, s.End.Via, s.End.Version, wire.OpAccept, c.Session, c.Token,
		wire.AcceptSize, size, a.Put)
}

// onOtherVersion takes a packet of another version of the protocol: a Connect, which is told so, or
// the refusal of one from here. Both have budgets, and an answer is not larger than the packet.
func (e *Engine) onOtherVersion(p *transport.RxPacket) {
	b := &e.handshakes.budgets
	if asked, nonce, ok := wire.AsksVersion(p.Data); ok {
		if b.versions.take(e.in.Now) {
			e.Out.RefuseVersion(&p.From, &wire.VersionRefusal{
				Nonce: nonce, Asked: asked, Least: e.cfg.Oldest, Most: e.cfg.Newest,
			})
		}
		return
	}
	var r wire.VersionRefusal
	if len(e.handshakes.repeating) == 0 || !r.Parse(p.Data) || !b.refusals.take(e.in.Now) {
		return
	}
	for _, s := range e.handshakes.repeating {
		if s.dialer == nil || s.End.Peer != p.From {
			continue
		}
		oldest := e.cfg.Oldest
		if s.handshake != nil {
			oldest = wire.Version
		}
		err, ok := s.dialer.OnVersion(&r, oldest, e.cfg.Newest, e.rng.Uint64(), e.in.Now)
		switch {
		case !ok:
			continue
		case err == nil:
			_ = s.dialer.Tick(e.in.Now, e.Out) // time is not up before the next look
		case s.handshake != nil:
			err = fmt.Errorf("%w: packets are sealed since version %d only: update the server", err,
				wire.SealedVersion)
			fallthrough
		default:
			e.end(s, OwnError(err), Refused)
		}
		return
	}
}
