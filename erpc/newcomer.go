package erpc

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Bounds of handshakes that clients have begun, which have proved their address. One share, see
// Config.Shares, has a quarter at most, so that it leaves room for others.
const (
	mostNewcomers = 4096    // under way
	mostKnown     = 1 << 16 // with those that have ended and are remembered
	perShare      = 4       // one share has at most this part of either
	// answerEvery is how often a repeated packet draws the server's part of a handshake again.
	answerEvery = 5 * time.Millisecond
	// soonDone is how many steps may wait for workers until a newcomer is told that its Connect has
	// come. The answer of a step that waits behind fewer is there before the client repeats itself,
	// after Timing.ConnectRetry. If it is not, the repeated Connect tells that it must be said.
	soonDone = 8
)

// newcomer is a client whose handshake is under way.
type newcomer struct {
	key     connKey
	share   transport.Addr // for which it counts
	connect wire.Connect
	body    []byte // of the Connect as it came last
	expires monotime.Time
	sentAt  monotime.Time
	ended   bool      // it is here only so that repetitions begin nothing new
	code    wire.Code // why it was refused; wire.CodeOK if it was not
	text    string
	stream
}

// crowd counts newcomers, in all and by share.
type crowd struct {
	active, known int // under way; with those that are remembered
}

// room reports whether one more fits beside all others and those of its share.
func (c crowd) room(own crowd) bool {
	return c.active < mostNewcomers && own.active < mostNewcomers/perShare &&
		c.known < mostKnown && own.known < mostKnown/perShare
}

// count adds to the newcomers of a client's share, and to all.
func (sh *shield) count(share transport.Addr, active, known int) {
	c := sh.crowds[share]
	c.active += active
	c.known += known
	if sh.crowds[share] = c; c == (crowd{}) {
		delete(sh.crowds, share)
	}
	sh.all.active += active
	sh.all.known += known
}

// trusts reports whether a Connect is of a process of this user, and may go without encryption.
func (e *engine) trusts(c *wire.Connect, from transport.Addr) bool {
	if !e.cfg.TrustLocal || c.Offer.Features&wire.FeatureSeal != 0 {
		return false
	}
	if !e.port.isPrivate(from) {
		return false
	}
	return e.cfg.Authorize == nil || e.cfg.Authorize(localState(from, false)) == nil
}

// onSecured takes a Connect whose sender has proved its address, where security is demanded.
func (e *engine) onSecured(c *wire.Connect, p *connectPacket, body []byte) {
	key := connKey{p.From, c.Nonce}
	if s := e.table.byKey[key]; s != nil {
		e.acceptProved(s, c, body)
		return
	}
	if c.Offer.Features&wire.FeatureSeal == 0 {
		e.refuse(c, &p.From, wire.CodeInsecure, "")
		return
	}
	kind, value := wire.Chunk(p.Data[wire.HeaderSize+len(body):])
	n := e.shield.newcomers[key]
	switch {
	case n != nil && n.ended:
		if n.code != wire.CodeOK {
			e.refuse(c, &p.From, n.code, n.text)
		}
	case n != nil:
		n.connect, n.body = *c, append(n.body[:0], body...)
		if kind == wire.ChunkCrypto {
			e.hearNewcomer(n, 0, value)
		}
		e.answerNewcomer(n)
	case kind == wire.ChunkProof:
		e.onJoin(c, p.From, body, value)
	case kind == wire.ChunkCrypto:
		e.onNewcomer(c, key, body, value)
	default:
		e.stats.DropMalformed++
	}
}

// onJoin takes a Connect by keys that both sides have.
func (e *engine) onJoin(c *wire.Connect, from transport.Addr, body, proof []byte) {
	seen := connectProof(body)
	if p := e.peers.byKey[peerKey{from, c.Epoch}]; p != nil && p.seal != nil {
		for i := -1; i < len(p.others); i++ {
			a := p.seal
			if i >= 0 {
				a = p.others[i]
			}
			if !a.opener && a.Check(proof, seen) {
				e.welcomeBy(a, c, from, body)
				return
			}
		}
	}
	e.refuse(c, &from, wire.CodeNoKeys, "")
}

// welcomeBy admits a session by an association, and answers.
func (e *engine) welcomeBy(a *association, c *wire.Connect, from transport.Addr, body []byte) {
	if s, _ := e.welcome(c, from, a); s != nil {
		e.acceptProved(s, c, body)
		e.out.Opened(s.end.Local)
	}
}

// acceptProved sends or repeats an Accept that proves what it answers.
func (e *engine) acceptProved(s *Session, c *wire.Connect, connect []byte) {
	if s.via == nil {
		return
	}
	s.sv.LowerMTU(c.Offer.MTU)
	a := e.acceptOf(s, c)
	size := int(a.Offer.MTU) + e.seam.overhead
	put := func(b []byte) {
		a.Put(b)
		seen := acceptProof(connect[:wire.ConnectSize], b[:wire.AcceptSize])
		wire.PutChunk(b[wire.AcceptSize:], wire.ChunkProof, s.via.Prove(nil, seen))
	}
	e.out.Mgmt(&s.end.Peer, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, size, put)
}

// onNewcomer begins a handshake with a client.
func (e *engine) onNewcomer(c *wire.Connect, key connKey, body, value []byte) {
	if why := e.shield.guard.serves(); why != "" {
		e.refuse(c, &key.from, wire.CodeDenied, why)
		return
	}
	sh, share := e.shield, e.shares.keyOf(key.from, nil)
	if e.refusing || !sh.all.room(sh.crowds[share]) {
		code := wire.CodeExhausted
		if e.refusing {
			code = wire.CodeShutdown
		}
		e.refuse(c, &key.from, code, "")
		return
	}
	n := &newcomer{
		key: key, share: share, connect: *c, body: bytes.Clone(body),
		expires: e.in.Now.Add(e.cfg.Timing.ConnectTimeout),
	}
	head, tail := wire.Fixed(n.body)
	said := append(bytes.Clone(head), tail...)
	mine := binary.LittleEndian.AppendUint64(nil, e.shakes.epoch)
	n.hs = sh.guard.handshake("", false, sh.rng, security.Opening{
		Judge: func(peer []byte) ([]byte, error) {
			if !bytes.Equal(peer, said) {
				return nil, security.ErrParams
			}
			return mine, nil
		},
	})
	sh.newcomers[key] = n
	sh.count(share, 1, 1)
	e.hearNewcomer(n, 0, value)
	if len(n.out) == 0 && sh.guard.queue.waits() >= soonDone {
		e.answerNewcomer(n) // the client learns at once that the path carries its packets
	}
}

// onClientsCrypto takes a part of a client's stream.
func (e *engine) onClientsCrypto(p *transport.RxPacket, body []byte) {
	field, _ := wire.SessionOf(p.Data)
	if e.group != nil && e.astray(field, p) {
		return
	}
	var c wire.Crypto
	c.Parse(body)
	n := e.shield.newcomers[connKey{p.From, c.Nonce}]
	if h := &e.shakes; n == nil && len(h.asked) > 0 { // its Connect may be among them
		h.early = append(h.early, connectPacket{p, wire.NoSession, len(body)})
		return
	}
	if n == nil || n.ended {
		return
	}
	n.took = max(n.took, min(int(c.Ack), len(n.out)))
	e.hearNewcomer(n, c.Offset, body[wire.CryptoSize:])
}

// hearNewcomer takes a part of a client's stream, and goes on with the handshake.
func (e *engine) hearNewcomer(n *newcomer, offset uint32, part []byte) {
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
	var a *association
	g, hs := e.shield.guard, n.hs
	work := func() {
		if out, err = hs.Step(in); err == nil && hs.Done() {
			if a, err = g.associate(hs, n.key.from, "", false); err == nil && g.keyLog != nil {
				g.log(n.key.nonce, hs.Secrets())
			}
		}
	}
	n.busy, n.fed = true, len(n.in)
	if !e.step(hs, work, func() { e.steppedNewcomer(n, out, a, err) }) {
		n.busy, n.fed = false, n.fed-len(in) // the client repeats it
	}
}

// steppedNewcomer takes what a worker has done.
func (e *engine) steppedNewcomer(n *newcomer, out []byte, a *association, err error) {
	n.busy = false
	if n.over {
		n.close()
		return
	}
	from := len(n.out)
	n.out = append(n.out, out...)
	if err != nil {
		e.turnAway(n, err)
		return
	}
	if a != nil {
		e.shield.conclude(n)
		s, code := e.welcome(&n.connect, n.key.from, a)
		if n.code = code; s != nil {
			e.acceptProved(s, &n.connect, n.body)
			e.out.Opened(s.end.Local)
		}
	}
	if len(out) > 0 {
		e.sendNewcomer(n, from)
	}
	if a != nil {
		n.stream = stream{over: true}
	} else {
		e.hearNewcomer(n, uint32(len(n.in)), nil) // what has come meanwhile
	}
}

// answerNewcomer repeats what the client may have missed.
func (e *engine) answerNewcomer(n *newcomer) {
	if n.over || n.sentAt != 0 && e.in.Now.Sub(n.sentAt) < answerEvery {
		return
	}
	e.sendNewcomer(n, n.took)
}

func (e *engine) sendNewcomer(n *newcomer, from int) {
	n.sentAt = e.in.Now
	c := wire.Crypto{Nonce: n.key.nonce, Ack: uint32(len(n.in))}
	mtu := int(n.connect.Offer.MTU)
	e.sendStream(&n.key.from, n.connect.Session, n.connect.Token, &c, n.out, from, mtu)
}

// turnAway ends a handshake that has failed, and tells the client.
func (e *engine) turnAway(n *newcomer, err error) {
	n.ended, n.code, n.text = true, wire.CodeDenied, err.Error()
	e.shield.conclude(n)
	n.stream = stream{over: true}
	e.cfg.Logger.Info("handshake failed", "peer", n.key.from.String(), "error", err)
	e.refuse(&n.connect, &n.key.from, wire.CodeDenied, err.Error())
}

// conclude ends a handshake. That there was one is remembered until it expires.
func (sh *shield) conclude(n *newcomer) {
	if n.over {
		return
	}
	n.ended = true
	sh.count(n.share, -1, 0)
	n.close()
}

// expire forgets handshakes that have taken too long.
func (sh *shield) expire(now monotime.Time) {
	for _, n := range sh.newcomers {
		if now >= n.expires {
			sh.conclude(n)
			delete(sh.newcomers, n.key)
			sh.count(n.share, 0, -1)
		}
	}
}
