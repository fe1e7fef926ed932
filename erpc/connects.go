package erpc

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

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
	// first Connects that are answered, with a Challenge. At once: 20,000 sessions that dial
	firstsPerSecond, firstsAtOnce = 20_000, 20 << 10
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
)

// budgets holds what strangers can make an endpoint do. Each kind has a budget of its own, so that
// a flood of one kind takes nothing from the others.
type budgets struct {
	firsts, cookies, stale budget
	versions, refusals     budget
	repeats, keyless       budget
}

func newBudgets() budgets {
	return budgets{
		firsts:   newBudget(firstsPerSecond, firstsAtOnce),
		cookies:  newBudget(cookiesPerSecond, cookiesAtOnce),
		stale:    newBudget(stalePerSecond, staleAtOnce),
		versions: newBudget(versionsPerSecond, versionsAtOnce),
		refusals: newBudget(versionsPerSecond, versionsAtOnce),
		repeats:  newBudget(repeatsPerSecond, repeatsAtOnce),
		keyless:  newBudget(keylessPerSecond, keylessAtOnce),
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

// answerConnects takes the Connects of a burst, behind its other packets. If there is not enough
// for all, chance decides who gets it, not the order in which they came.
func (e *engine) answerConnects() {
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
func (e *engine) onConnect(p *connectPacket) bool {
	body := p.body()
	var c wire.Connect
	c.Parse(body)
	b, now, cookies := &e.handshakes.budgets, e.in.Now, e.handshakes.cookies
	first := c.Cookie == [wire.CookieSize]byte{}
	if first && !b.firsts.take(now) || !first && !b.cookies.take(now) {
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
	if here, gone := true, false; proved {
		if here, gone = e.placed(&c, p); !here && !gone {
			return true
		}
		proved = !gone
	}
	if !proved {
		ch := wire.Challenge{Nonce: c.Nonce, Cookie: e.cookie(&c, p, body)}
		put, size := ch.Put, wire.ChallengeSize
		if e.security != nil {
			size += whoSize
			put = func(b []byte) { ch.Put(b); e.putWho(b[wire.ChallengeSize:], &ch) }
		}
		e.out.Mgmt(&p.From, 0, p.version, wire.OpChallenge, c.Session, c.Token, size, 0, put)
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
	if e.security != nil && !e.trusts(&c, p.From) {
		e.onSecured(&c, p, body)
		return true
	}
	if seals {
		e.refuse(&c, &p.From, 0, p.version, wire.CodeInsecure, "")
		return true
	}
	e.onProved(&c, p.From, p.version)
	return true
}

// onProved takes a Connect whose sender has proved its address.
func (e *engine) onProved(c *wire.Connect, from transport.Addr, version uint8) {
	key := connKey{from: from, nonce: c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		if s.end.Version == version {
			e.accept(s, c) // the Accept was lost, or is still under way
		}
		return
	}
	with := &association{addr: from, epoch: c.Epoch, loop: wire.LoopOf(c.Session)}
	e.welcome(c, key, version, with)
}

// welcome makes the server's end of a session and answers, or refuses it and says why. With is its
// association, or for a peer in the clear what is known of one.
func (e *engine) welcome(c *wire.Connect, key connKey, version uint8, with *association) {
	s, code := e.admit(c, version, with)
	if code != wire.CodeOK {
		e.refuse(c, &with.addr, with.field, version, code, "")
		return
	}
	e.table.addKey(key, s)
	e.accept(s, c)
	e.out.Opened(s.end.Local)
}

// refuse refuses a session, and says why in a text that may be empty.
func (e *engine) refuse(
	c *wire.Connect, to *transport.Addr, via uint32, version uint8, code wire.Code, text string,
) {
	e.stats.SessionsRefused++
	r := wire.Refuse{Nonce: c.Nonce, Code: code}
	text = text[:min(len(text), maxRefusal)]
	put := func(b []byte) { r.Put(b[:wire.RefuseSize]); copy(b[wire.RefuseSize:], text) }
	size := wire.RefuseSize + len(text)
	e.out.Mgmt(to, via, version, wire.OpRefuse, c.Session, c.Token, size, 0, put)
}

// admit makes the server's end of a session, or says why not.
func (e *engine) admit(
	c *wire.Connect, version uint8, with *association,
) (*Session, wire.Code) {
	if e.refusing {
		return nil, wire.CodeShutdown
	}
	path := e.port.pathTo(with.addr)
	mtu := min(uint32(e.paths.mtu-e.recordLayer.overhead), c.Offer.MTU)
	mine := e.paths.offer(int(mtu), &path)
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
	s := newServerSession(e)
	s.shared, s.state = path.Shared, sessConnected
	s.sv.Init(session.End{
		Peer: with.addr, Local: e.table.next(), LocalToken: e.rng.Uint32(),
		Remote: c.Session, RemoteToken: c.Token, Params: params,
	}, session.Timing(e.cfg.Timing), e.pool, &e.refusals, &e.proto)
	s.showPeer()
	e.table.add(s)
	e.quotas.join(s, with)
	s.live.Heard(e.in.Now)
	e.assocs.join(s, with, &s.end.Params, e.in.Now)
	e.stats.SessionsOpened++
	return s, wire.CodeOK
}

// accept sends or repeats the Accept. A client that found the path's MTU smaller
// than first offered may say so until it uses the session.
func (e *engine) accept(s *Session, c *wire.Connect) {
	s.sv.LowerMTU(c.Offer.MTU)
	a := wire.Accept{
		Nonce: c.Nonce, Epoch: e.handshakes.epoch, Session: s.end.Local, Token: s.end.LocalToken,
		Offer: s.end.Offer(),
	}
	size := int(a.Offer.MTU)
	if s.end.Via == 0 {
		size += e.recordLayer.overhead
	}
	e.out.Mgmt(&s.end.Peer, s.end.Via, s.end.Version, wire.OpAccept, c.Session, c.Token,
		wire.AcceptSize, size, a.Put)
}

// onOtherVersion takes a packet of another version of the protocol: a Connect, which is told so, or
// the refusal of one from here. Both have budgets, and an answer is not larger than the packet.
func (e *engine) onOtherVersion(p *transport.RxPacket) {
	b := &e.handshakes.budgets
	if asked, nonce, ok := wire.AsksVersion(p.Data); ok {
		if b.versions.take(e.in.Now) {
			e.out.RefuseVersion(&p.From, &wire.VersionRefusal{
				Nonce: nonce, Asked: asked, Least: e.cfg.oldest, Most: e.cfg.newest,
			})
		}
		return
	}
	var r wire.VersionRefusal
	if len(e.handshakes.repeating) == 0 || !r.Parse(p.Data) || !b.refusals.take(e.in.Now) {
		return
	}
	for _, s := range e.handshakes.repeating {
		if s.dialer == nil || s.end.Peer != p.From {
			continue
		}
		oldest := e.cfg.oldest
		if s.handshake != nil {
			oldest = wire.Version
		}
		err, ok := s.dialer.OnVersion(&r, oldest, e.cfg.newest, e.rng.Uint64(), e.in.Now)
		switch {
		case !ok:
			continue
		case err == nil:
			_ = s.dialer.Tick(e.in.Now, e.out) // time is not up before the next look
		case s.handshake != nil:
			err = fmt.Errorf("%w: packets are sealed since version %d only: update the server", err,
				wire.SealedVersion)
			fallthrough
		default:
			e.end(s, ownError(err), SessionRefused)
		}
		return
	}
}
