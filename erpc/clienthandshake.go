package erpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

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
	of    *credentials // with which
}

// clientHandshake is the security of a client session that is being opened.
type clientHandshake struct {
	name      string // that the server must have
	challenge wire.Challenge
	epoch     uint64 // of the server's endpoint
	loop      uint8  // of it

	nonce     uint64       // of the attempt
	of        *credentials // that keys are made with
	own       *association // with an index for the keys that this session may make
	opening   bool         // there are keys, and the session opens on the association in End.Via
	openAt    monotime.Time
	renews    bool // it was made to get keys, and for nothing else: see renew
	leader    bool // followers wait for this handshake
	waits     bool // for another session's handshake, or a worker
	followers []*Session

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
func (e *engine) putWho(b []byte, c *wire.Challenge) {
	epoch, loop := e.handshakes.epoch, uint8(0)
	if e.group != nil {
		loop = c.Cookie[wire.CookieLoopAt]
		if m := e.group.member(loop); m != nil {
			epoch = m.engine.handshakes.epoch // never changes
		}
	}
	binary.LittleEndian.PutUint64(b, epoch)
	b[8], b[9] = loop, wire.SealedVersion
}

// beginHandshake starts the handshake of a session. Its Connect leaves with the first message.
func (e *engine) beginHandshake(s *Session) {
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
	t.hs = e.security.guard.handshake(h.name, true, e.security.rng, o)
	h.stream = t
	h.waits = true
	e.stepHandshake(s)
}

// paramsSize is the size of what a server says in a handshake.
//
//	0 epoch u64 · 8 index u32
const paramsSize = 12

// fixed returns what both Connects of a session say.
func (s *Session) fixed() (head, tail []byte) {
	body := make([]byte, wire.ConnectSize, wire.ConnectSize+len(s.dialer.Ext))
	s.dialer.Connect.Put(body)
	return wire.Fixed(append(body, s.dialer.Ext...))
}

// stepHandshake lets a worker go on with the handshake, if there is something to do.
func (e *engine) stepHandshake(s *Session) {
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
	g, peer, nonce, own := e.security.guard, s.end.Peer, s.dialer.Connect.Nonce, h.own
	work := func() {
		if out, err = t.hs.Step(in); err == nil && t.hs.Done() {
			if m, err = g.associate(t.hs, peer, true, t.theirs); err == nil && g.keyLog != nil {
				g.log(nonce, t.hs.Secrets(), own.field, t.theirs)
			}
		}
	}
	if !e.step(e.cfg.Shares.key(peer), t.hs, work, func() { e.stepped(s, t, out, m, err) }) {
		t.busy, t.fed = false, t.fed-len(in)
	}
}

// stepped takes what a worker has done.
func (e *engine) stepped(s *Session, t *stream, out []byte, m *made, err error) {
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
		e.end(s, handshakeError(err), SessionRefused)
		return
	}
	if first {
		h.waits = false
		s.dialer.Proceed(&h.challenge, e.in.Now, e.out)
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
func (e *engine) associated(s *Session, m *made) {
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
func (e *engine) pad(s *Session, padding []byte) {
	h := s.handshake
	if room := wire.ChunkRoom(padding); h.begun() && room > 0 {
		wire.PutChunk(padding, wire.ChunkCrypto, h.out[:min(len(h.out), room)])
		h.resend = true
	}
}

// repeatHandshake repeats what is due of a secure session.
func (e *engine) repeatHandshake(s *Session) {
	h := s.handshake
	if h.waits {
		if h.begun() {
			e.stepHandshake(s) // if no worker had room for it
		}
		s.dialer.Rest(max(s.dialer.NextAt(), e.in.Now.Add(waitsFor)))
		if s.dialer.Tick(e.in.Now, e.out) != nil {
			e.end(s, ErrConnect, SessionRefused)
		}
		return
	}
	if h.opening && s.dialer.Unanswered(e.in.Now) {
		if a := e.assocs.find(s.end.Via); a == nil || !a.watch.HeardSince(h.openAt) {
			e.distrust(s.end.Via) // the server may have other keys under this index
			return
		}
	}
	if h.opening && h.begun() && s.dialer.NextAt() <= e.in.Now {
		e.sendCrypto(s, h.last) // without it the server has no keys
	}
	if err := s.dialer.Tick(e.in.Now, e.out); err != nil {
		e.end(s, ownError(err), SessionRefused)
		return
	}
	e.sendRest(s)
}

// sendRest sends what a Connect that has just left had no room for.
func (e *engine) sendRest(s *Session) {
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
func (e *engine) sendCrypto(s *Session, from int) { e.cryptoOf(s, from)() }

// cryptoOf returns a function that sends the client's stream from a place on, as the stream is now.
func (e *engine) cryptoOf(s *Session, from int) func() {
	h, to, mtu := s.handshake, s.end.Peer, int(s.dialer.Connect.Offer.MTU)
	field, out := wire.FirstOf(h.loop)|wire.NoSession, h.out
	c := wire.Crypto{Nonce: s.dialer.Connect.Nonce, Ack: uint32(len(h.in))}
	return func() { e.sendStream(&to, 0, field, &c, out, from, mtu) }
}

// sendStream sends a stream from a place on, in packets of at most mtu bytes, at least one.
func (e *engine) sendStream(
	to *transport.Addr, via, field uint32, c *wire.Crypto, out []byte, from, mtu int,
) {
	perPacket := mtu - wire.HeaderSize - wire.CryptoSize
	for {
		part := out[from:min(len(out), from+perPacket)]
		c.Offset = uint32(from)
		put := func(b []byte) { c.Put(b); copy(b[wire.CryptoSize:], part) }
		e.out.Mgmt(to, via, wire.Version, wire.OpCrypto, field, 0, wire.CryptoSize+len(part), 0, put)
		if from += len(part); from == len(out) {
			return
		}
	}
}

// onServersCrypto takes a part of the server's stream.
func (e *engine) onServersCrypto(s *Session, c *wire.Crypto, part []byte) {
	h := s.handshake
	if !h.begun() || h.opening {
		return
	}
	s.dialer.Hears(e.in.Now)
	if !h.take(c.Offset, part) {
		e.end(s, handshakeError(security.ErrMessage), SessionRefused)
		return
	}
	if len(h.in) > h.fed {
		e.stepHandshake(s)
	}
}

// onTicket takes what a server says after the handshake: tickets, by which another handshake needs
// no certificates.
func (e *engine) onTicket(a *association, body []byte) {
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
	if !e.step(e.cfg.Shares.key(a.addr), t.hs, func() { _, err = t.hs.Step(in) }, done) {
		t.busy = false // the next handshake is a whole one
	}
}

// handshakeDone lets the sessions go on that wait for the keys of this one, whether it has made any
// or not.
func (e *engine) handshakeDone(s *Session) {
	h := s.handshake
	if h == nil || !h.leader {
		return
	}
	h.leader = false
	delete(e.security.leaders, leaderKey{s.end.Peer, h.epoch, h.name, h.of})
	for _, f := range h.followers {
		// One that was challenged by another endpoint meanwhile does not wait for this one's.
		if w := f.handshake; f.state == sessConnecting && w.waits && !w.begun() && w.epoch == h.epoch {
			e.findKeys(f)
		}
	}
	h.followers = nil
}

// abandonHandshake ends the handshake of a session that has ended.
func (e *engine) abandonHandshake(s *Session) {
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
		return fmt.Errorf("%w: %w", ErrInsecure, ownError(err))
	case wire.CodeDenied:
		return fmt.Errorf("%w by the server (%s): %w", ErrDenied, clean, ownError(err))
	}
	return ownError(err)
}
