package engine

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

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
