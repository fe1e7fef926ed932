package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Where packets are sealed, two endpoints make an association first, and sessions open on it:
//
//	C: Connect            offers wire.FeatureSeal, and says the client's index
//	S: Challenge          names the endpoint that takes the session, by epoch and loop
//	C: Connect, cookie    in its padding the beginning of a handshake
//	S: Crypto             the handshake goes on, in both directions, until both have keys
//	C: Crypto
//	C: Open, sealed       and from here on everything is
//	S: Accept, sealed
//
// If the client has opened an association with that endpoint before, the Open follows the Challenge
// at once. Only the client repeats packets; the server answers.
//
// A packet in the clear belongs to one attempt to connect, and repeats its nonce. It can end this
// attempt and nothing else: no session, no association. TLS, or the shared key, covers what the
// client offered, its index and epoch, and those of the server; all else is sealed.

// leaderKey names an endpoint with which keys are being made.
type leaderKey struct {
	addr  transport.Addr
	epoch uint64
	name  string
	of    *Credentials // with which
}

// clientHandshake is the security of a client session that is being opened.
type clientHandshake struct {
	name      string // that the server must have
	challenge wire.Challenge
	epoch     uint64 // of the server's endpoint
	loop      uint8  // of it

	nonce     uint64       // of the attempt
	of        *Credentials // that keys are made with
	own       *association // with an index for the keys that this session may make
	opening   bool         // there are keys, and the session opens on the association in End.Via
	openAt    monotime.Time
	renews    bool // it was made to get keys, and for nothing else: see renew
	leader    bool // followers wait for this handshake
	waits     bool // for another session's handshake, or a worker
	followers []*Conn

	*stream      // nil before the handshake
	last    int  // where the last flight begins in out
	resend  bool // a Connect has left, and the rest of the stream is to follow it
}

// stream is one side of a handshake, and what both sides have said.
type stream struct {
	hs   *security.Handshake
	out  []byte // all that this side has said
	took int    // how much of out the peer has acknowledged
	in   []byte // what the peer has said
	fed  int    // how much of in was given to hs
	busy bool   // a worker has hs
	over bool   // nobody wants it any more
	// The index that the peer has chosen; for the worker that has hs.
	theirs uint32
}

// begun reports whether there is a handshake.
func (t *stream) begun() bool { return t != nil && t.hs != nil }

// take takes a part of the peer's stream. It reports false if it is too much.
func (t *stream) take(offset uint32, part []byte) bool {
	at := uint64(len(t.in))
	if from := uint64(offset); from <= at && from+uint64(len(part)) > at {
		t.in = append(t.in, part[at-from:]...)
	}
	return len(t.in) <= security.MaxStream
}

// close ends the handshake, unless a worker has it: then that does.
func (t *stream) close() {
	t.over = true
	if t.hs != nil && !t.busy {
		t.hs.Close()
	}
}

// whoSize is the size of what a Challenge says behind its body.
//
//	0 epoch u64 · 8 loop u8 · 9 version of sealed packets u8 · 10 zero 6 B
const whoSize = 16

// putWho says which endpoint takes the session that a Challenge is for.
func (e *Engine) putWho(b []byte, c *wire.Challenge) {
	epoch, loop := e.handshakes.epoch, uint8(0)
	if e.peers != nil {
		loop = c.Cookie[wire.CookieLoopAt]
		if other, runs := e.peers.Epoch(loop); runs {
			epoch = other
		}
	}
	binary.LittleEndian.PutUint64(b, epoch)
	b[8], b[9] = loop, wire.SealedVersion
}

// beginHandshake starts the handshake of a session. Its Connect leaves with the first message.
func (e *Engine) beginHandshake(s *Conn) {
	h := s.handshake
	head, tail := s.fixed()
	epoch, t := h.epoch, new(stream)
	judge := func(peer []byte) ([]byte, error) { // in the worker
		if len(peer) != paramsSize || binary.LittleEndian.Uint64(peer) != epoch {
			return nil, security.ErrParams
		}
		t.theirs = binary.LittleEndian.Uint32(peer[8:])
		return nil, nil
	}
	o := security.Opening{Params: append(head, tail...), Judge: judge}
	t.hs = e.security.keys.handshake(h.name, true, e.security.rng, o)
	h.stream = t
	h.waits = true
	e.stepHandshake(s)
}

// paramsSize is the size of what a server says in a handshake.
//
//	0 epoch u64 · 8 index u32
const paramsSize = 12

// fixed returns what both Connects of a session say.
func (s *Conn) fixed() (head, tail []byte) {
	body := make([]byte, wire.ConnectSize, wire.ConnectSize+len(s.dialer.Ext))
	s.dialer.Connect.Put(body)
	return wire.Fixed(append(body, s.dialer.Ext...))
}

// stepHandshake lets a worker go on with the handshake, if there is something to do.
func (e *Engine) stepHandshake(s *Conn) {
	h := s.handshake
	t := h.stream
	if t.busy || t.over || len(t.out) > 0 && t.fed == len(t.in) {
		return
	}
	in := t.in[t.fed:len(t.in):len(t.in)]
	t.fed = len(t.in)
	t.busy = true
	var out []byte
	var err error
	var m *made
	g, peer, nonce, own := e.security.keys, s.End.Peer, s.dialer.Connect.Nonce, h.own
	work := func() {
		if out, err = t.hs.Step(in); err == nil && t.hs.Done() {
			if m, err = g.associate(t.hs, peer, true, t.theirs); err == nil && g.keyLog != nil {
				g.log(nonce, t.hs.Secrets(), own.field, t.theirs)
			}
		}
	}
	if !e.step(e.cfg.Shares.Key(peer), t.hs, work, func() { e.stepped(s, t, out, m, err) }) {
		t.busy, t.fed = false, t.fed-len(in)
	}
}

// stepped takes what a worker has done.
func (e *Engine) stepped(s *Conn, t *stream, out []byte, m *made, err error) {
	h := s.handshake
	t.busy = false
	if t.over || h == nil || h.stream != t {
		t.close()
		return
	}
	first := len(t.out) == 0
	h.last = len(t.out)
	t.out = append(t.out, out...)
	if err != nil {
		e.end(s, handshakeError(err), Refused)
		return
	}
	if first {
		h.waits = false
		s.dialer.Proceed(&h.challenge, e.in.Now, e.Out)
		e.sendRest(s)
	}
	say := func() {}
	if !first {
		say = e.cryptoOf(s, h.last)
	}
	if m != nil {
		e.associated(s, m)
		say() // behind a padded Open, which the server keeps: a shorter packet ends a train
		return
	}
	say()
	e.stepHandshake(s)
}

// associated enters the association whose keys a session's handshake has made. This session opens
// on it, and so do those that wait for the keys. The sessions of an earlier incarnation of the
// server are asked whether they live.
func (e *Engine) associated(s *Conn, m *made) {
	h := s.handshake
	a := h.own
	h.own = nil
	a.become(m)
	a.epoch, a.loop, a.of, a.sent = h.epoch, h.loop, h.of, new(sentRing)
	if m.state.TLS != nil {
		a.ticket = h.stream
	}
	e.assocs.enter(a, e.in.Now)
	e.assocs.dialled[a.leaderKey()] = a
	e.handshakeDone(s)
	e.openOn(s, a)
	e.probeOlder(a) // behind the Opens: before it has keys the server keeps only one datagram
}

// become gives an association its keys, and the identity that the handshake has proved.
func (a *association) become(m *made) {
	a.keys, a.state, a.quotaKey = m.keys, m.state, m.quotaKey
}

// handshakeError gives an error of a handshake the library's name.
func handshakeError(err error) error {
	if errors.Is(err, ErrDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDenied, err)
}

// pad writes the beginning of the handshake behind a Connect.
func (e *Engine) pad(s *Conn, padding []byte) {
	h := s.handshake
	if room := wire.ChunkRoom(padding); h.begun() && room > 0 {
		wire.PutChunk(padding, wire.ChunkCrypto, h.out[:min(len(h.out), room)])
		h.resend = true
	}
}

// repeatHandshake repeats what is due of a secure session.
func (e *Engine) repeatHandshake(s *Conn) {
	h := s.handshake
	if h.waits {
		if h.begun() {
			e.stepHandshake(s) // if no worker had room for it
		}
		s.dialer.Rest(max(s.dialer.NextAt(), e.in.Now.Add(waitsFor)))
		if s.dialer.Tick(e.in.Now, e.Out) != nil {
			e.end(s, ErrConnect, Refused)
		}
		return
	}
	if h.opening && s.dialer.Unanswered(e.in.Now) {
		if a := e.assocs.find(s.End.Via); a == nil || !a.watch.HeardSince(h.openAt) {
			e.distrust(s.End.Via) // the server may have other keys under this index
			return
		}
	}
	if h.opening && h.begun() && s.dialer.NextAt() <= e.in.Now {
		e.sendCrypto(s, h.last) // without it the server has no keys
	}
	if err := s.dialer.Tick(e.in.Now, e.Out); err != nil {
		e.end(s, OwnError(err), Refused)
		return
	}
	e.sendRest(s)
}

// sendRest sends what a Connect that has just left had no room for.
func (e *Engine) sendRest(s *Conn) {
	h := s.handshake
	if !h.resend {
		return
	}
	h.resend = false
	room := int(s.dialer.Connect.Offer.MTU) + e.recordLayer.overhead - wire.HeaderSize -
		wire.ConnectSize - len(s.dialer.Ext)
	if room = wire.ChunkRoom(make([]byte, max(room, 0))); len(h.out) > room {
		e.sendCrypto(s, max(room, 0))
	}
}

// sendCrypto sends the client's stream from a place on.
func (e *Engine) sendCrypto(s *Conn, from int) { e.cryptoOf(s, from)() }

// cryptoOf returns a function that sends the client's stream from a place on, as the stream is now.
func (e *Engine) cryptoOf(s *Conn, from int) func() {
	h, to, mtu := s.handshake, s.End.Peer, int(s.dialer.Connect.Offer.MTU)
	field, out := wire.FirstOf(h.loop)|wire.NoSession, h.out
	c := wire.Crypto{Nonce: s.dialer.Connect.Nonce, Ack: uint32(len(h.in))}
	return func() { e.sendStream(&to, 0, field, &c, out, from, mtu) }
}

// sendStream sends a stream from a place on, in packets of at most mtu bytes, at least one.
func (e *Engine) sendStream(
	to *transport.Addr, via, field uint32, c *wire.Crypto, out []byte, from, mtu int,
) {
	perPacket := mtu - wire.HeaderSize - wire.CryptoSize
	for {
		part := out[from:min(len(out), from+perPacket)]
		c.Offset = uint32(from)
		put := func(b []byte) { c.Put(b); copy(b[wire.CryptoSize:], part) }
		e.Out.Mgmt(to, via, wire.Version, wire.OpCrypto, field, 0, wire.CryptoSize+len(part), 0, put)
		if from += len(part); from == len(out) {
			return
		}
	}
}

// onServersCrypto takes a part of the server's stream.
func (e *Engine) onServersCrypto(s *Conn, c *wire.Crypto, part []byte) {
	h := s.handshake
	if !h.begun() || h.opening {
		return
	}
	s.dialer.Hears(e.in.Now)
	if !h.take(c.Offset, part) {
		e.end(s, handshakeError(security.ErrMessage), Refused)
		return
	}
	if len(h.in) > h.fed {
		e.stepHandshake(s)
	}
}

// onTicket takes what a server says after the handshake: tickets, by which another handshake needs
// no certificates.
func (e *Engine) onTicket(a *association, body []byte) {
	var c wire.Crypto
	c.Parse(body)
	t := a.ticket
	if t == nil || t.busy || t.over {
		return
	}
	if !t.take(c.Offset, body[wire.CryptoSize:]) {
		t.close()
		return
	}
	in := t.in[t.fed:len(t.in):len(t.in)]
	if len(in) == 0 {
		return
	}
	t.fed, t.busy = len(t.in), true
	var err error
	done := func() {
		if t.busy = false; t.over || err != nil {
			t.close()
		}
	}
	if !e.step(e.cfg.Shares.Key(a.addr), t.hs, func() { _, err = t.hs.Step(in) }, done) {
		t.busy = false // the next handshake is a whole one
	}
}

// handshakeDone lets the sessions go on that wait for the keys of this one, whether it has made any
// or not.
func (e *Engine) handshakeDone(s *Conn) {
	h := s.handshake
	if h == nil || !h.leader {
		return
	}
	h.leader = false
	delete(e.security.leaders, leaderKey{s.End.Peer, h.epoch, h.name, h.of})
	for _, f := range h.followers {
		// One that was challenged by another endpoint meanwhile does not wait for this one's.
		if w := f.handshake; f.state == connecting && w.waits && !w.begun() && w.epoch == h.epoch {
			e.findKeys(f)
		}
	}
	h.followers = nil
}

// abandonHandshake ends the handshake of a session that has ended.
func (e *Engine) abandonHandshake(s *Conn) {
	h := s.handshake
	e.handshakeDone(s)
	delete(e.security.dials, h.nonce)
	if h.own != nil {
		e.assocs.release(h.own)
		if h.stream != nil {
			h.close()
		}
	}
	s.handshake = nil
}

// maxRefusal is the size of the longest text in a refusal, bytes.
const maxRefusal = 200

// refusalError makes an error of a refusal, with the text behind its body.
func refusalError(r *wire.Refuse, err error, text []byte) error {
	clean := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, string(text[:min(len(text), maxRefusal)]))
	switch r.Code {
	case wire.CodeInsecure:
		return fmt.Errorf("%w: %w", ErrInsecure, OwnError(err))
	case wire.CodeDenied:
		return fmt.Errorf("%w by the server (%s): %w", ErrDenied, clean, OwnError(err))
	}
	return OwnError(err)
}

// guardDial makes a session that is about to connect a secure one, unless it is between processes
// of one user, and that is trusted. It reports false if there is no index left.
func (e *Engine) guardDial(s *Conn, path *transport.Path) bool {
	if e.cfg.TrustLocal && path.Private {
		return true
	}
	d := s.dialer
	h := &clientHandshake{name: s.hostName(), nonce: d.Connect.Nonce,
		own: &association{opener: true, addr: s.End.Peer}}
	h.own.name = h.name
	s.handshake = h
	if !e.assocs.reserve(h.own) {
		return false
	}
	s.End.Via = h.own.field // nothing in the clear is the session's from now on
	// What names the session is said where it is sealed.
	d.Connect.Session, d.Connect.Token = wire.FirstOf(e.Loop())|wire.NoSession, 0
	sealedOffer(&d.Connect.Offer)
	index := binary.LittleEndian.AppendUint32(nil, h.own.field)
	d.Ext = wire.AppendExtension(nil, wire.Extension{Type: wire.ExtIndex, Value: index})
	d.Pad = func(padding []byte) { e.pad(s, padding) }
	e.security.dials[h.nonce] = s
	return true
}

// sealedOffer makes an offer one for sealed packets, whose tag is a better checksum.
func sealedOffer(o *wire.Offer) {
	o.Features = o.Features&^wire.FeatureChecksum | wire.FeatureSeal
}

// indexOf returns the index in the extensions behind a Connect's body, 0 if there is none.
func indexOf(body []byte) uint32 {
	for rest := body[wire.ConnectSize:]; len(rest) > 0; {
		x, behind, err := wire.NextExtension(rest)
		if err != nil {
			return 0
		}
		if x.Type == wire.ExtIndex && len(x.Value) == 4 {
			return binary.LittleEndian.Uint32(x.Value)
		}
		rest = behind
	}
	return 0
}

// hostName returns the host of the address that a session dials, as its certificate names it.
func (s *Conn) hostName() string {
	if s.host != "" {
		return s.host
	}
	return s.End.Peer.AddrPort().Addr().WithZone("").String()
}

// waitsFor is how long a session that waits for another's handshake ignores its own timer.
const waitsFor = time.Second

// onDialer takes a packet of the handshake in the clear: it is for the attempt to connect whose
// nonce it repeats.
func (e *Engine) onDialer(op wire.Op, body []byte) {
	s := e.security.dials[binary.LittleEndian.Uint64(body)] // all of them begin with it
	if s == nil || s.dialer == nil {
		e.stats.DropNoSession++
		return
	}
	if op == wire.OpRefuse && s.handshake.opening { // the server did not take this side's last words
		a := e.assocs.find(s.End.Via)
		e.onDialAnswer(s, op, body)
		if a != nil && s.state != connecting && e.mayRenew(a) {
			e.distrust(a.field) // anybody can say so, and it costs others of its sessions a handshake
		}
		return
	}
	e.onDialAnswer(s, op, body)
}

// onChallenge takes the cookie, and finds out which keys the session gets.
func (e *Engine) onChallenge(s *Conn, c *wire.Challenge, who []byte) {
	h := s.handshake
	switch {
	case c.Nonce != s.dialer.Connect.Nonce || h.opening:
		return
	case len(who) < whoSize:
		e.end(s, fmt.Errorf("%w: the server sends everything in the clear", ErrInsecure), Refused)
		return
	case who[9] != wire.SealedVersion:
		e.end(s, fmt.Errorf("%w: the server seals packets by version %d, this side by %d: update both",
			ErrVersion, max(who[9], 2), wire.SealedVersion), Refused)
		return
	}
	h.challenge = *c
	if epoch := binary.LittleEndian.Uint64(who); h.epoch != 0 && h.epoch != epoch {
		e.handshakeDone(s) // another endpoint takes the session: all begins anew
		if h.stream != nil {
			h.close()
		}
		h.stream, h.waits = nil, false
	}
	if h.waits || h.begun() {
		if !h.waits {
			s.dialer.OnChallenge(c, e.in.Now, e.Out) // the cookie was too old
			e.sendRest(s)
		}
		return
	}
	h.epoch, h.loop = binary.LittleEndian.Uint64(who), who[8]
	e.findKeys(s)
}

// findKeys lets a session that a server has challenged use keys that this side has made with it,
// wait for those that another session makes, or make them.
func (e *Engine) findKeys(s *Conn) {
	h := s.handshake
	h.waits = false
	h.of = e.security.keys.now()
	key := leaderKey{s.End.Peer, h.epoch, h.name, h.of}
	if a := e.assocs.dialled[key]; a != nil {
		e.openOn(s, a)
		return
	}
	if l := e.security.leaders[key]; l != nil && l != s {
		h.waits = true
		l.handshake.followers = append(l.handshake.followers, s)
		return
	}
	e.security.leaders[key] = s
	h.leader = true
	e.beginHandshake(s)
}

// openOn opens a session on an association.
func (e *Engine) openOn(s *Conn, a *association) {
	h, d := s.handshake, s.dialer
	if h.renews {
		// What was heard of an older one may have been on its way before.
		e.probeOlder(a)
		e.end(s, ErrClosed, Closed) // the keys are all that it was for
		return
	}
	if h.own != nil && h.own != a {
		e.assocs.release(h.own)
	}
	h.own, h.opening, h.waits, h.openAt = nil, true, false, e.in.Now
	if !h.begun() {
		delete(e.security.dials, h.nonce) // nothing in the clear is for it any more
	}
	s.End.Via = a.field
	d.Connect.Session, d.Connect.Token = s.End.Local, s.End.LocalToken
	d.Open(a.field, e.in.Now, e.Out)
}

// Bounds of handshakes that clients have begun, which have proved their address. One quota, see
// Config.Shares, has a quarter at most, so that it leaves room for others.
const (
	maxPending   = 4096    // under way
	maxKnown     = 1 << 16 // with those that have ended and are remembered
	quotaDivisor = 4       // one quota has at most this part of either
	// answerEvery is how often a repeated packet draws the server's part of a handshake again.
	answerEvery = 5 * time.Millisecond
	// soonDone is how many steps may wait for workers until a client is told that its Connect has
	// come. The answer of a step that waits behind fewer is there before the client repeats itself,
	// after Timing.ConnectRetry. If it is not, the repeated Connect tells that it must be said.
	soonDone = 8
)

// pendingHandshake is a client's handshake that is not finished.
type pendingHandshake struct {
	key      connKey
	quotaKey transport.Addr // for which it counts
	connect  wire.Connect
	body     []byte       // of the Connect as it came last
	assoc    *association // that gets the keys
	early    []byte       // a copy of the first sealed datagram, which came before them
	expires  monotime.Time
	sentAt   monotime.Time
	ended    bool      // it is here only so that repetitions begin nothing new
	code     wire.Code // why it was refused; wire.CodeOK if it was not
	text     string
	stream
}

// halfOpen counts pending handshakes, in all and by quota.
type halfOpen struct {
	active, known int // under way; with those that are remembered
	early         int // bytes of sealed datagrams that came before their keys
}

// room reports whether one more fits beside all others and those of its quota.
func (c halfOpen) room(own halfOpen) bool {
	return c.active < maxPending && own.active < maxPending/quotaDivisor &&
		c.known < maxKnown && own.known < maxKnown/quotaDivisor
}

// roomEarly reports whether a sealed datagram fits beside all others and those of its quota.
func (c halfOpen) roomEarly(own halfOpen, size int) bool {
	return size <= maxEarly && c.early+size <= maxAllEarly &&
		own.early+size <= maxAllEarly/quotaDivisor
}

// count adds to the pending handshakes of a client's quota, and to all.
func (sec *endpointSecurity) count(quotaKey transport.Addr, add halfOpen) {
	own := sec.halfOpen[quotaKey].with(add)
	if sec.halfOpen[quotaKey] = own; own == (halfOpen{}) {
		delete(sec.halfOpen, quotaKey)
	}
	sec.all = sec.all.with(add)
}

func (c halfOpen) with(add halfOpen) halfOpen {
	return halfOpen{c.active + add.active, c.known + add.known, c.early + add.early}
}

// trusts reports whether a Connect is of a process of this user, and may go without encryption.
func (e *Engine) trusts(c *wire.Connect, from transport.Addr) bool {
	if !e.cfg.TrustLocal || c.Offer.Features&wire.FeatureSeal != 0 {
		return false
	}
	if !e.port.IsPrivate(from) {
		return false
	}
	return e.security.keys.authorize(localIdentity(from, false)) == nil
}

// onSecured takes a Connect whose sender has proved its address, where security is demanded.
func (e *Engine) onSecured(c *wire.Connect, p *connectPacket, body []byte) {
	key := connKey{from: p.From, nonce: c.Nonce}
	index := indexOf(body)
	switch {
	case c.Offer.Features&wire.FeatureSeal == 0:
		e.refuse(c, &p.From, 0, p.version, wire.CodeInsecure, "")
		return
	case index == 0 || index&wire.KeyPhase != 0:
		e.refuse(c, &p.From, 0, p.version, wire.CodeDenied, oldSeal)
		return
	case c.Offer.MTU < session.MinMTU || c.Offer.MTU > uint32(len(p.Data)):
		e.refuse(c, &p.From, 0, p.version, wire.CodeBadOffer, "") // the answer is in packets of that size
		return
	}
	kind, value := wire.Chunk(p.Data[wire.HeaderSize+len(body):])
	n := e.security.pending[key]
	switch {
	case n != nil && n.ended:
		if n.code != wire.CodeOK {
			e.refuse(c, &p.From, 0, p.version, n.code, n.text)
		}
	case n != nil:
		n.connect, n.body = *c, append(n.body[:0], body...)
		if kind == wire.ChunkCrypto {
			e.hearPending(n, 0, value)
		}
		e.answerPending(n)
	case kind == wire.ChunkCrypto:
		e.beginPending(c, key, body, value, index)
	default:
		e.stats.DropMalformed++
	}
}

// oldSeal tells a client that nobody speaks the version of its sealed packets.
const oldSeal = "sealed packets of version 2 are not spoken any more, only of version 3: " +
	"update the client"

// onOpen takes a client's word that it opens a session on an association.
func (e *Engine) onOpen(a *association, pkt, body []byte) {
	var c wire.Connect
	c.Parse(body)
	switch {
	case a.opener:
		e.stats.DropRole++ // each side dials by associations of its own
		return
	case len(pkt) < int(c.Offer.MTU) || c.Offer.Features&wire.FeatureSeal == 0 ||
		wire.CheckExtensions(body[wire.ConnectSize:]) != nil:
		e.stats.DropMalformed++
		return
	}
	key := connKey{via: a.field, nonce: c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		e.accept(s, &c) // the Accept was lost, or is still under way
		return
	}
	e.welcome(&c, key, wire.Version, a)
}

// beginPending begins a handshake with a client.
func (e *Engine) beginPending(
	c *wire.Connect, key connKey, body, value []byte, index uint32,
) {
	if why := e.security.keys.serves(); why != "" {
		e.refuse(c, &key.from, 0, wire.Version, wire.CodeDenied, why)
		return
	}
	sec, quotaKey := e.security, e.quotas.cfg.Key(key.from)
	a := &association{addr: key.from, epoch: c.Epoch, loop: wire.LoopOf(c.Session)}
	if e.refusing || !sec.all.room(sec.halfOpen[quotaKey]) || !e.assocs.reserve(a) {
		code := wire.CodeExhausted
		if e.refusing {
			code = wire.CodeShutdown
		}
		e.refuse(c, &key.from, 0, wire.Version, code, "")
		return
	}
	n := &pendingHandshake{
		key: key, quotaKey: quotaKey, connect: *c, body: bytes.Clone(body), assoc: a,
		expires: e.in.Now.Add(e.cfg.Timing.ConnectTimeout),
	}
	a.pending, n.theirs = n, index
	head, tail := wire.Fixed(n.body)
	said := append(bytes.Clone(head), tail...)
	mine := binary.LittleEndian.AppendUint64(nil, e.handshakes.epoch)
	mine = binary.LittleEndian.AppendUint32(mine, a.field)
	n.hs = sec.keys.handshake("", false, sec.rng, security.Opening{
		Judge: func(peer []byte) ([]byte, error) {
			if !bytes.Equal(peer, said) {
				return nil, security.ErrParams
			}
			return mine, nil
		},
	})
	sec.pending[key], sec.order = n, append(sec.order, n)
	sec.count(quotaKey, halfOpen{active: 1, known: 1})
	e.hearPending(n, 0, value)
	if len(n.out) == 0 && sec.keys.queue.waits() >= soonDone {
		e.answerPending(n) // the client learns at once that the path carries its packets
	}
}

// onCrypto takes a part of a stream of a handshake, of either side.
func (e *Engine) onCrypto(p *transport.RxPacket, body []byte) {
	var c wire.Crypto
	c.Parse(body)
	part := body[wire.CryptoSize:]
	if s := e.security.dials[c.Nonce]; s != nil && s.dialer != nil {
		e.onServersCrypto(s, &c, part)
		return
	}
	n := e.security.pending[connKey{from: p.From, nonce: c.Nonce}]
	if h := &e.handshakes; n == nil && len(h.connects) > 0 { // its Connect may be among them
		h.early = append(h.early, connectPacket{p, wire.NoSession, len(body), wire.Version})
		return
	}
	if n == nil || n.ended {
		return
	}
	n.took = max(n.took, min(int(c.Ack), len(n.out)))
	e.hearPending(n, c.Offset, part)
}

// Bounds of sealed datagrams that wait for the keys of their handshake, bytes.
const (
	maxEarly    = 16 << 10
	maxAllEarly = 4 << 20
)

// tooEarly keeps the first sealed datagram of a client whose keys a worker still makes: it is the
// Open that followed the client's last words.
func (e *Engine) tooEarly(a *association, pkt []byte, from *transport.Addr) {
	n := a.pending
	sec := e.security
	if n == nil || n.early != nil || n.key.from != *from ||
		!sec.all.roomEarly(sec.halfOpen[n.quotaKey], len(pkt)) {
		e.stats.DropSealed++
		return
	}
	n.early = bytes.Clone(pkt)
	sec.count(n.quotaKey, halfOpen{early: len(pkt)})
}

// hearPending takes a part of a client's stream, and goes on with the handshake.
func (e *Engine) hearPending(n *pendingHandshake, offset uint32, part []byte) {
	if !n.take(offset, part) {
		e.turnAway(n, security.ErrMessage)
		return
	}
	if n.busy || n.over || n.fed == len(n.in) {
		return
	}
	in := n.in[n.fed:len(n.in):len(n.in)]
	var out []byte
	var err error
	var m *made
	g, hs := e.security.keys, n.hs
	work := func() {
		if out, err = hs.Step(in); err == nil && hs.Done() {
			if m, err = g.associate(hs, n.key.from, false, n.theirs); err == nil && g.keyLog != nil {
				g.log(n.key.nonce, hs.Secrets(), n.theirs, n.assoc.field)
			}
		}
	}
	n.busy, n.fed = true, len(n.in)
	if !e.step(n.quotaKey, hs, work, func() { e.steppedPending(n, out, m, err) }) {
		n.busy, n.fed = false, n.fed-len(in) // the client repeats it
	}
}

// steppedPending takes what a worker has done.
func (e *Engine) steppedPending(n *pendingHandshake, out []byte, m *made, err error) {
	n.busy = false
	if n.over {
		n.close()
		n.hs = nil
		return
	}
	from := len(n.out)
	n.out = append(n.out, out...)
	switch {
	case err != nil:
		e.turnAway(n, err)
	case m != nil:
		e.finishPending(n, m, from)
	default:
		if len(out) > 0 {
			e.sendPending(n, from)
		}
		e.hearPending(n, uint32(len(n.in)), nil) // what has come meanwhile
	}
}

// finishPending gives a client's association its keys. What the stream says from a place on comes
// after the handshake: a ticket. An Open may have come before the keys.
func (e *Engine) finishPending(n *pendingHandshake, m *made, from int) {
	a, early := n.assoc, n.early
	e.security.conclude(n)
	a.become(m)
	e.assocs.enter(a, e.in.Now)
	e.probeOlder(a)
	if early != nil {
		p := transport.RxPacket{Data: early, From: n.key.from}
		if via := e.open(&p); via != dropped && !wire.IsBundle(p.Data) {
			e.OnPacket(&p, via)
		}
	}
	if len(n.out) > from { // behind the padded Accept: what is shorter ends a train
		c := wire.Crypto{Nonce: n.key.nonce, Ack: uint32(len(n.in))}
		e.sendStream(&a.addr, a.field, wire.NoSession, &c, n.out, from, int(n.connect.Offer.MTU))
	}
	n.stream = stream{over: true}
}

// answerPending repeats what the client may have missed.
func (e *Engine) answerPending(n *pendingHandshake) {
	if n.over || n.sentAt != 0 && e.in.Now.Sub(n.sentAt) < answerEvery {
		return
	}
	e.sendPending(n, n.took)
}

func (e *Engine) sendPending(n *pendingHandshake, from int) {
	n.sentAt = e.in.Now
	c := wire.Crypto{Nonce: n.key.nonce, Ack: uint32(len(n.in))}
	mtu := int(n.connect.Offer.MTU)
	e.sendStream(&n.key.from, 0, n.connect.Session, &c, n.out, from, mtu)
}

// turnAway ends a handshake that has failed, and tells the client.
func (e *Engine) turnAway(n *pendingHandshake, err error) {
	n.ended, n.code, n.text = true, wire.CodeDenied, err.Error()
	e.security.conclude(n)
	e.assocs.release(n.assoc)
	if n.busy {
		n.stream = stream{hs: n.hs, busy: true, over: true} // the worker's result ends it
	} else {
		n.stream = stream{over: true}
	}
	e.cfg.Logger.Info("handshake failed", "peer", n.key.from.String(), "error", err)
	e.refuse(&n.connect, &n.key.from, 0, wire.Version, wire.CodeDenied, err.Error())
}

// conclude ends a handshake. That there was one is remembered until it expires.
func (sec *endpointSecurity) conclude(n *pendingHandshake) {
	if n.over {
		return
	}
	n.ended = true
	sec.count(n.quotaKey, halfOpen{active: -1, early: -len(n.early)})
	n.early, n.assoc.pending = nil, nil
	n.close()
}

// expirePending forgets handshakes that have taken too long.
func (e *Engine) expirePending() {
	sec := e.security
	for len(sec.order) > 0 && sec.order[0].expires <= e.in.Now {
		n := sec.order[0]
		sec.order[0] = nil
		sec.order = sec.order[1:]
		sec.conclude(n)
		if n.assoc.keys == nil {
			e.assocs.release(n.assoc)
		}
		delete(sec.pending, n.key)
		sec.count(n.quotaKey, halfOpen{known: -1})
	}
}
