package erpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// A secure session opens like any other one, and between Challenge and Accept keys come in:
//
//	C: Connect            offers wire.FeatureSeal
//	S: Challenge          names the endpoint that takes the session, by epoch and loop
//	C: Connect, cookie    in its padding the beginning of a handshake, if there are no keys
//	S: Crypto             the handshake goes on, in both directions, until both have keys
//	C: Crypto
//	S: Accept             with a proof over both the Connect, as it came, and the Accept
//
// If the two endpoints have keys already the Connect has a proof in place of the handshake, and the
// Accept follows at once. Everything is repeated by the client alone: the server answers.
//
// Nothing before the Accept is believed for longer than the handshake takes: TLS, or the shared
// key, covers what the client offered and the epoch of the server, and the proofs cover the rest.

// leaderKey names an endpoint with which keys are being made.
type leaderKey struct {
	addr  transport.Addr
	epoch uint64
	name  string
}

// clientShake is the security of a client session that is being opened.
type clientShake struct {
	name      string // that the server must have
	challenge wire.Challenge
	epoch     uint64 // of the server's endpoint
	loop      uint8  // of it

	assoc     *association // that the session is opened by
	joins     bool         // it was there before
	leader    bool         // followers wait for this handshake
	waits     bool         // for another session's handshake, or a worker
	followers []*Session

	stream
	resend bool // a Connect has left, and the rest of the stream is to follow it
}

// stream is one side of a handshake, and what both sides have said.
type stream struct {
	hs   *security.Handshake
	out  []byte // all that this side has said
	took int    // of it, by the peer
	in   []byte // what the peer has said
	fed  int    // of it, to hs
	busy bool   // a worker has hs
	over bool   // nobody wants it any more
}

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
//	0 epoch u64 · 8 loop u8 · 9 zero 7 B
const whoSize = 16

// putWho says which endpoint takes the session that a Challenge is for.
func (e *engine) putWho(b []byte, c *wire.Challenge) {
	epoch, loop := e.shakes.epoch, uint8(0)
	if e.group != nil {
		loop = c.Cookie[wire.CookieLoopAt]
		if m := e.group.member(loop); m != nil {
			epoch = m.engine.shakes.epoch // never changes
		}
	}
	binary.LittleEndian.PutUint64(b, epoch)
	b[8] = loop
}

// guardDial makes a session that is about to connect a secure one, unless it is between processes
// of one user, and that is trusted.
func (e *engine) guardDial(s *Session, path *transport.Path) {
	if e.cfg.TrustLocal && path.Private {
		return
	}
	s.shake = &clientShake{name: s.hostName()}
	s.dialer.Connect.Offer.Features |= wire.FeatureSeal
	s.dialer.Pad = func(body, padding []byte) { e.pad(s, body, padding) }
}

// hostName returns the host of the address that a session dials, as its certificate names it.
func (s *Session) hostName() string {
	if s.host != "" {
		return s.host
	}
	return s.end.Peer.AddrPort().Addr().WithZone("").String()
}

// hostOf returns the host in an address as text, the name or the IP address that a certificate has;
// "" if it has none. A transport may reach the host in another way than by that address.
func hostOf(addr string) string {
	if hasName(addr) {
		return addr[:strings.LastIndexByte(addr, ':')]
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil || at.Addr().IsUnspecified() {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// waitsFor is how long a session that waits for another's handshake does not look at its own timer.
const waitsFor = time.Second

// onChallenge takes the cookie, and finds out which keys the session gets.
func (e *engine) onChallenge(s *Session, c *wire.Challenge, who []byte) {
	h := s.shake
	if c.Nonce != s.dialer.Connect.Nonce {
		return
	}
	if len(who) < whoSize {
		e.end(s, fmt.Errorf("%w: the server sends everything in the clear", ErrInsecure), SessionRefused)
		return
	}
	h.challenge = *c
	if epoch := binary.LittleEndian.Uint64(who); h.epoch != 0 && h.epoch != epoch {
		e.shaken(s) // another endpoint takes the session: all begins anew
		h.close()
		h.stream, h.assoc, h.joins, h.waits = stream{}, nil, false, false
	}
	if h.waits || h.hs != nil {
		if !h.waits {
			s.dialer.OnChallenge(c, e.in.Now, e.out) // the cookie was too old
			e.sendRest(s)
		}
		return
	}
	if h.joins && s.dialer.Answers(c) {
		return // a copy: the server has the Connect, or it is on its way
	}
	h.epoch, h.loop = binary.LittleEndian.Uint64(who), who[8]
	e.findKeys(s)
}

// findKeys lets a session with a cookie use keys that are there, wait for those that another one
// makes, or make them.
func (e *engine) findKeys(s *Session) {
	h := s.shake
	h.waits, h.assoc, h.joins = false, nil, false
	if p := e.peers.byKey[peerKey{s.end.Peer, h.epoch}]; p != nil {
		if a := p.keysFor(h.name); a != nil {
			h.assoc, h.joins = a, true
			s.dialer.Proceed(&h.challenge, e.in.Now, e.out)
			return
		}
	}
	key := leaderKey{s.end.Peer, h.epoch, h.name}
	if l := e.shield.leaders[key]; l != nil && l != s {
		h.waits = true
		l.shake.followers = append(l.shake.followers, s)
		return
	}
	e.shield.leaders[key] = s
	h.leader = true
	e.beginShake(s)
}

// keysFor returns an association that this side has opened with a server of a name.
func (p *peer) keysFor(name string) *association {
	if p.seal != nil && p.seal.opener && p.seal.name == name {
		return p.seal
	}
	for _, a := range p.others {
		if a.opener && a.name == name {
			return a
		}
	}
	return nil
}

// beginShake starts the handshake of a session. Its Connect leaves with the first message.
func (e *engine) beginShake(s *Session) {
	h := s.shake
	head, tail := s.fixed()
	epoch := h.epoch
	judge := func(peer []byte) ([]byte, error) {
		if len(peer) != 8 || binary.LittleEndian.Uint64(peer) != epoch {
			return nil, security.ErrParams
		}
		return nil, nil
	}
	o := security.Opening{Params: append(head, tail...), Judge: judge}
	h.stream = stream{hs: e.shield.guard.handshake(h.name, true, e.shield.rng, o)}
	h.waits = true
	e.stepShake(s)
}

// fixed returns what both Connects of a session say.
func (s *Session) fixed() (head, tail []byte) {
	body := make([]byte, wire.ConnectSize)
	s.dialer.Connect.Put(body)
	return wire.Fixed(body)
}

// stepShake lets a worker go on with the handshake, if there is something to do.
func (e *engine) stepShake(s *Session) {
	h := s.shake
	if h.busy || h.over || len(h.out) > 0 && h.fed == len(h.in) {
		return
	}
	in := h.in[h.fed:len(h.in):len(h.in)]
	h.fed = len(h.in)
	h.busy = true
	var out []byte
	var err error
	var a *association
	g, hs, peer, nonce := e.shield.guard, h.hs, s.end.Peer, s.dialerNonce()
	before := hs.Done()
	work := func() {
		if out, err = hs.Step(in); err == nil && hs.Done() && !before {
			if a, err = g.associate(hs, peer, h.name, true); err == nil && g.keyLog != nil {
				g.log(nonce, hs.Secrets())
			}
		}
	}
	if !e.step(hs, work, func() { e.stepped(s, hs, out, a, err) }) {
		h.busy, h.fed = false, h.fed-len(in)
	}
}

// dialerNonce returns the nonce of a session that connects, 0 of others.
func (s *Session) dialerNonce() uint64 {
	if s.dialer == nil {
		return 0
	}
	return s.dialer.Connect.Nonce
}

// stepped takes what a worker has done.
func (e *engine) stepped(
	s *Session, hs *security.Handshake, out []byte, a *association, err error,
) {
	h := s.shake
	if h == nil || h.hs != hs {
		hs.Close()
		return
	}
	h.busy = false
	if h.over {
		h.close()
		return
	}
	if s.state != sessConnecting { // a ticket of an open session
		return
	}
	first := len(h.out) == 0
	h.out = append(h.out, out...)
	switch {
	case err != nil:
		e.end(s, shakeError(err), SessionRefused)
		return
	case a != nil:
		h.assoc = a
	}
	if first {
		h.waits = false
		s.dialer.Proceed(&h.challenge, e.in.Now, e.out)
		e.sendRest(s)
	} else {
		e.sendCrypto(s, len(h.out)-len(out))
	}
	e.stepShake(s)
}

// shakeError gives an error of a handshake the library's name.
func shakeError(err error) error {
	if errors.Is(err, ErrDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDenied, err)
}

// pad writes the proof, or the beginning of the handshake, behind a Connect.
func (e *engine) pad(s *Session, body, padding []byte) {
	h := s.shake
	room := wire.ChunkRoom(padding)
	switch {
	case h.joins && room >= security.ProofSize:
		wire.PutChunk(padding, wire.ChunkProof, h.assoc.Prove(nil, connectProof(body)))
	case !h.joins && room > 0:
		wire.PutChunk(padding, wire.ChunkCrypto, h.out[:min(len(h.out), room)])
		h.resend = true
	}
}

// connectProof and acceptProof return what proofs are over.
func connectProof(body []byte) []byte { return append([]byte("connect"), body...) }

func acceptProof(connect, body []byte) []byte {
	return append(append([]byte("accept "), connect...), body...)
}

// repeatShake repeats what is due of a secure session.
func (e *engine) repeatShake(s *Session) {
	h := s.shake
	if h.waits {
		if h.hs != nil {
			e.stepShake(s) // if no worker had room for it
		}
		s.dialer.Rest(max(s.dialer.NextAt(), e.in.Now.Add(waitsFor)))
		if s.dialer.Tick(e.in.Now, e.out) != nil {
			e.end(s, ErrConnect, SessionRefused)
		}
		return
	}
	if err := s.dialer.Tick(e.in.Now, e.out); err != nil {
		e.end(s, ownError(err), SessionRefused)
		return
	}
	e.sendRest(s)
}

// sendRest sends what a Connect that has just left had no room for.
func (e *engine) sendRest(s *Session) {
	h := s.shake
	if !h.resend {
		return
	}
	h.resend = false
	room := int(s.dialer.Connect.Offer.MTU) + e.seam.overhead - wire.HeaderSize - wire.ConnectSize
	if room = wire.ChunkRoom(make([]byte, max(room, 0))); len(h.out) > room {
		e.sendCrypto(s, max(room, 0))
	}
}

// sendCrypto sends the client's stream from a place on.
func (e *engine) sendCrypto(s *Session, from int) {
	h := s.shake
	field := wire.FirstOf(h.loop) | wire.NoSession
	c := wire.Crypto{Nonce: s.dialer.Connect.Nonce, Ack: uint32(len(h.in))}
	e.sendStream(&s.end.Peer, field, 0, &c, h.out, from, int(s.dialer.Connect.Offer.MTU))
}

// sendStream sends a stream from a place on, in packets of at most mtu bytes, at least one.
func (e *engine) sendStream(
	to *transport.Addr, field, token uint32, c *wire.Crypto, out []byte, from, mtu int,
) {
	most := mtu - wire.HeaderSize - wire.CryptoSize
	for {
		part := out[from:min(len(out), from+most)]
		c.Offset = uint32(from)
		e.out.Mgmt(to, wire.OpCrypto, field, token, wire.CryptoSize+len(part), 0, func(b []byte) {
			c.Put(b)
			copy(b[wire.CryptoSize:], part)
		})
		if from += len(part); from == len(out) {
			return
		}
	}
}

// onServersCrypto takes a part of the server's stream.
func (e *engine) onServersCrypto(s *Session, body []byte) {
	h := s.shake
	var c wire.Crypto
	c.Parse(body)
	if h.hs == nil || s.dialer != nil && c.Nonce != s.dialer.Connect.Nonce {
		return
	}
	if s.dialer != nil {
		s.dialer.Hears(e.in.Now)
	}
	if !h.take(c.Offset, body[wire.CryptoSize:]) {
		h.close()
		if s.dialer != nil {
			e.end(s, shakeError(security.ErrMessage), SessionRefused)
		}
		return
	}
	if len(h.in) > h.fed {
		e.stepShake(s)
	}
}

// proven reports whether an Accept is the server's that has the keys, and says so.
func (e *engine) proven(s *Session, body, padding []byte) bool {
	h := s.shake
	var a wire.Accept
	a.Parse(body)
	if a.Nonce != s.dialer.Connect.Nonce {
		return false
	}
	kind, proof := wire.Chunk(padding)
	if h.assoc == nil || kind != wire.ChunkProof || a.Epoch != h.epoch ||
		a.Offer.Features&wire.FeatureSeal == 0 {
		e.stats.DropSealed++
		return false
	}
	connect := make([]byte, wire.ConnectSize)
	s.dialer.Connect.Put(connect)
	if !h.assoc.Check(proof, acceptProof(connect, body)) {
		e.stats.DropSealed++
		return false
	}
	s.via = h.assoc
	return true
}

// shaken lets the sessions go on that wait for this one's keys, whether it has made any or not.
func (e *engine) shaken(s *Session) {
	h := s.shake
	if h == nil || !h.leader {
		return
	}
	h.leader = false
	delete(e.shield.leaders, leaderKey{s.end.Peer, h.epoch, h.name})
	for _, f := range h.followers {
		if f.state == sessConnecting {
			e.findKeys(f)
		}
	}
	h.followers = nil
}

// abandonShake ends the handshake of a session that has ended.
func (e *engine) abandonShake(s *Session) {
	e.shaken(s)
	s.shake.close()
	s.shake = nil
}

// onRefused takes a refusal. It reports whether the session goes on: the server has lost the keys.
// Anybody on the path can say that, so it costs no more than a handshake.
func (e *engine) onRefused(s *Session, r *wire.Refuse, _ []byte) bool {
	h := s.shake
	if r.Nonce != s.dialer.Connect.Nonce || r.Code != wire.CodeNoKeys {
		return false
	}
	if h.joins {
		h.joins, h.assoc = false, nil
		key := leaderKey{s.end.Peer, h.epoch, h.name}
		if l := e.shield.leaders[key]; l == nil {
			e.shield.leaders[key], h.leader = s, true
		}
		e.beginShake(s)
	}
	return true
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
