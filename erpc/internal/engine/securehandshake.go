package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
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

// stream is one side of a handshake. What the peer says is held here until a message is whole, and
// then nowhere but in the handshake.
type stream struct {
	hs   *security.Handshake
	out  []byte // all that this side has said
	took int    // how much of out the peer has acknowledged
	in   []byte // what the peer has said and hs has not got
	got  int    // how much the peer has said
	busy bool   // a worker has hs
	over bool   // nobody wants it any more
	// The index that the peer has chosen; for the worker that has hs.
	theirs uint32
}

// begun reports whether there is a handshake.
func (t *stream) begun() bool { return t != nil && t.hs != nil }

// take takes a part of the peer's stream. What is beyond a message, the peer has to say again. It
// reports false if it is too much in all.
func (t *stream) take(offset uint32, part []byte) bool {
	if skip := t.got - int(offset); skip >= 0 && skip < len(part) {
		part = part[skip:]
		part = part[:min(len(part), security.MaxFrame-len(t.in))]
		t.in = append(t.in, part...)
		t.got += len(part)
	}
	return t.got <= security.MaxStream
}

// next takes the whole messages that have come; nil if there are none.
func (t *stream) next(psk bool) ([]byte, error) {
	n, err := security.Whole(psk, t.in)
	if n == 0 {
		return nil, err
	}
	whole := t.in[:n:n]
	t.in = append([]byte(nil), t.in[n:]...)
	return whole, err
}

// back undoes next.
func (t *stream) back(whole []byte) { t.in = append(whole, t.in...) }

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
	if t.busy || t.over {
		return
	}
	in, err := t.next(t.hs.PSK())
	if err != nil {
		e.end(s, handshakeError(err), Refused)
		return
	}
	if len(in) == 0 && len(t.out) > 0 {
		return
	}
	t.busy = true
	g, peer, nonce, own, hs := e.security.keys, s.End.Peer, s.dialer.Connect.Nonce, h.own, t.hs
	work := func(ctx context.Context) (r stepResult) {
		if r.out, r.err = hs.Step(in); r.err != nil || !hs.Done() {
			return r
		}
		r.made, r.err = g.associate(ctx, hs, peer, true, t.theirs)
		if r.err == nil && g.keyLog != nil {
			g.log(nonce, hs.Secrets(), own.field, t.theirs)
		}
		return r
	}
	done := func(r stepResult) { e.stepped(s, t, r) }
	if !e.step(e.cfg.Shares.Key(peer), nil, hs, work, done) {
		t.busy = false
		t.back(in)
	}
}

// stepped takes what a worker has done.
func (e *Engine) stepped(s *Conn, t *stream, r stepResult) {
	h := s.handshake
	t.busy = false
	if r.lost {
		t.hs = nil
	}
	if t.over || h == nil || h.stream != t {
		t.close()
		return
	}
	first := len(t.out) == 0
	h.last = len(t.out)
	t.out = append(t.out, r.out...)
	if r.err != nil {
		e.end(s, handshakeError(r.err), Refused)
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
	if r.made != nil {
		e.associated(s, r.made)
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
	c := wire.Crypto{Nonce: s.dialer.Connect.Nonce, Ack: uint32(h.got)}
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
	if !h.begun() {
		return
	}
	s.dialer.Hears(e.in.Now)
	if h.opening { // the server has all, and asks who decides whether this side is welcome
		return
	}
	if !h.take(c.Offset, part) {
		e.end(s, handshakeError(security.ErrMessage), Refused)
		return
	}
	e.stepHandshake(s)
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
	in, err := t.next(t.hs.PSK())
	if len(in) == 0 {
		if err != nil {
			t.close()
		}
		return
	}
	t.busy = true
	hs := t.hs
	work := func(context.Context) (r stepResult) {
		_, r.err = hs.Step(in)
		return r
	}
	done := func(r stepResult) {
		if r.lost {
			t.hs = nil
		}
		if t.busy = false; t.over || r.err != nil {
			t.close()
		}
	}
	if !e.step(e.cfg.Shares.Key(a.addr), nil, hs, work, done) {
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

// refusalError makes an error of a refusal, with what can be seen of the text behind its body.
func refusalError(r *wire.Refuse, err error, text []byte) error {
	clean := strings.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) || c == utf8.RuneError {
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
