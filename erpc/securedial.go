package erpc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// guardDial makes a session that is about to connect a secure one, unless it is between processes
// of one user, and that is trusted. It reports false if there is no index left.
func (e *engine) guardDial(s *Session, path *transport.Path) bool {
	if e.cfg.TrustLocal && path.Private {
		return true
	}
	d := s.dialer
	h := &clientHandshake{name: s.hostName(), nonce: d.Connect.Nonce,
		own: &association{opener: true, addr: s.end.Peer}}
	h.own.name = h.name
	s.handshake = h
	if !e.assocs.reserve(h.own) {
		return false
	}
	s.end.Via = h.own.field // nothing in the clear is the session's from now on
	// What names the session is said where it is sealed.
	d.Connect.Session, d.Connect.Token = wire.FirstOf(e.loop())|wire.NoSession, 0
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

// waitsFor is how long a session that waits for another's handshake ignores its own timer.
const waitsFor = time.Second

// onDialer takes a packet of the handshake in the clear: it is for the attempt to connect whose
// nonce it repeats.
func (e *engine) onDialer(op wire.Op, body []byte) {
	s := e.security.dials[binary.LittleEndian.Uint64(body)] // all of them begin with it
	if s == nil || s.dialer == nil {
		e.stats.DropNoSession++
		return
	}
	if op == wire.OpRefuse && s.handshake.opening { // the server did not take this side's last words
		a := e.assocs.find(s.end.Via)
		e.onDialAnswer(s, op, body)
		if a != nil && s.state != sessConnecting && e.mayRenew(a) {
			e.distrust(a.field) // anybody can say so, and it costs others of its sessions a handshake
		}
		return
	}
	e.onDialAnswer(s, op, body)
}

// onChallenge takes the cookie, and finds out which keys the session gets.
func (e *engine) onChallenge(s *Session, c *wire.Challenge, who []byte) {
	h := s.handshake
	switch {
	case c.Nonce != s.dialer.Connect.Nonce || h.opening:
		return
	case len(who) < whoSize:
		e.end(s, fmt.Errorf("%w: the server sends everything in the clear", ErrInsecure), SessionRefused)
		return
	case who[9] != wire.SealedVersion:
		e.end(s, fmt.Errorf("%w: the server seals packets by version %d, this side by %d: update both",
			ErrVersion, max(who[9], 2), wire.SealedVersion), SessionRefused)
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
			s.dialer.OnChallenge(c, e.in.Now, e.out) // the cookie was too old
			e.sendRest(s)
		}
		return
	}
	h.epoch, h.loop = binary.LittleEndian.Uint64(who), who[8]
	e.findKeys(s)
}

// findKeys lets a session that a server has challenged use keys that this side has made with it,
// wait for those that another session makes, or make them.
func (e *engine) findKeys(s *Session) {
	h := s.handshake
	h.waits = false
	h.of = e.security.guard.now()
	key := leaderKey{s.end.Peer, h.epoch, h.name, h.of}
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
func (e *engine) openOn(s *Session, a *association) {
	h, d := s.handshake, s.dialer
	if h.renews {
		// What was heard of an older one may have been on its way before.
		e.probeOlder(a)
		e.end(s, ErrClosed, SessionClosed) // the keys are all that it was for
		return
	}
	if h.own != nil && h.own != a {
		e.assocs.release(h.own)
	}
	h.own, h.opening, h.waits, h.openAt = nil, true, false, e.in.Now
	if !h.begun() {
		delete(e.security.dials, h.nonce) // nothing in the clear is for it any more
	}
	s.end.Via = a.field
	d.Connect.Session, d.Connect.Token = s.end.Local, s.end.LocalToken
	d.Open(a.field, e.in.Now, e.out)
}
