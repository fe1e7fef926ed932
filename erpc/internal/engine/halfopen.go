package engine

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"runtime/metrics"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	// answerEvery is how often a repeated packet draws the server's part of a handshake again.
	answerEvery = 5 * time.Millisecond
	// soonDone is how many steps may wait for workers until a client is told that its Connect has
	// come. The answer of a step that waits behind fewer is there before the client repeats itself,
	// after Timing.ConnectRetry. If it is not, the repeated Connect tells that it must be said.
	soonDone = 8
)

// pendingHandshake is a client's handshake that is not finished.
type pendingHandshake struct {
	key     connKey
	connect wire.Connect
	version uint8        // of the Connect
	body    []byte       // of it as it came last
	assoc   *association // that gets the keys; nil if the client is to have none
	early   []byte       // a copy of the first sealed datagram, which came before them
	expires monotime.Time
	sentAt  monotime.Time
	ended   bool      // it is here only so that repetitions begin nothing new
	code    wire.Code // why it was refused; wire.CodeOK if it was not
	text    string
	stream
	gone chan struct{} // closed when it is over, for the worker

	share    *openShare // that it counts for; nil if it has ended
	step     uint64     // the last one, of halfOpen.steps
	cost     int        // what it counts, bytes
	byShare  pendingLink
	byExpiry pendingLink
}

// What a handshake has on the heap beside the bytes that it holds.
const (
	pendingSize = 1 << 10  // itself, and its place in tables
	pskSize     = 1 << 10  // a handshake by a shared key
	tlsSize     = 16 << 10 // one of crypto/tls, with its goroutine
)

// maxHeapCost bounds heapCost, for programs whose collector rests.
const maxHeapCost = 8

// heapCost returns by how much the process grows for each byte of the heap that is in use:
// handshakes that come and go fill with garbage what the collector allows beside it.
func heapCost() int {
	gogc := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(gogc)
	percent := min(gogc[0].Value.Uint64(), (maxHeapCost-1)*100) // all ones if it is off
	return 1 + int(percent+99)/100
}

// size returns what a handshake has on the heap now.
func (n *pendingHandshake) size() int {
	size := pendingSize + cap(n.in) + cap(n.out) + cap(n.body) + len(n.early)
	if n.hs != nil && n.hs.PSK() {
		size += pskSize
	} else if n.hs != nil {
		size += tlsSize
	}
	return size
}

// pendingLink is a place in a pendingList.
type pendingLink struct{ prev, next *pendingHandshake }

// pendingList is a line of handshakes, in one of two orders.
type pendingList struct {
	first, last *pendingHandshake
	link        func(*pendingHandshake) *pendingLink
}

func byShare(n *pendingHandshake) *pendingLink  { return &n.byShare }
func byExpiry(n *pendingHandshake) *pendingLink { return &n.byExpiry }

// push puts a handshake at the end.
func (l *pendingList) push(n *pendingHandshake) {
	*l.link(n) = pendingLink{prev: l.last}
	if l.last == nil {
		l.first = n
	} else {
		l.link(l.last).next = n
	}
	l.last = n
}

// remove takes a handshake out.
func (l *pendingList) remove(n *pendingHandshake) {
	at := l.link(n)
	if at.prev == nil {
		l.first = at.next
	} else {
		l.link(at.prev).next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		l.link(at.next).prev = at.prev
	}
	*at = pendingLink{}
}

// openShare is the handshakes under way of the addresses of one share.
type openShare struct {
	key   transport.Addr
	count int
	place int         // in halfOpen.fullest
	line  pendingList // the one that has got on longest ago first
}

const (
	// maxHalfOpen bounds the cost of all half-open handshakes of an endpoint, in bytes.
	maxHalfOpen = 32 << 20
	// halfOpenPart is which part of Config.MemoryLimit they have at most.
	halfOpenPart = 4
	// halfOpenPiece is how many bytes are charged to the memory limit at a time.
	halfOpenPiece = 64 << 10
)

// halfOpen holds the handshakes that clients have begun, which have proved their address and
// nothing else, with those that have ended and are remembered until they expire.
//
// All together have a bound, which counts as memory of messages. There is always room for one more:
// first those go that have ended; then the share that has most loses the one that has waited
// longest since it got on. Of shares that have as many it is the one that has waited longest of
// all. Getting on is a step, which takes a whole message; parts of messages are none. So whoever
// opens many has his own closed, however many addresses he has; and one that answers at once
// outlives all that wait.
type halfOpen struct {
	max     int
	perByte int // what a byte on the heap costs
	cost    int
	charged int // to budget
	budget  *msgbuf.Budget
	byKey   map[connKey]*pendingHandshake
	shares  map[transport.Addr]*openShare
	fullest shareHeap
	ended   pendingList // those that are remembered
	expiry  pendingList // all, in the order in which they expire
	steps   uint64      // that handshakes have made
	spare   [][]byte    // what parts of messages were in: parts that nobody ends make no garbage
}

// Memory of parts is kept from leastSpare bytes on, at most maxSpare pieces.
const leastSpare, maxSpare = 4 << 10, 64

// room makes a handshake's parts go on in spare memory if they need more than they have.
func (o *halfOpen) room(n *pendingHandshake, more int) {
	need, last := len(n.in)+more, len(o.spare)-1
	if need < leastSpare || need <= cap(n.in) || last < 0 {
		return
	}
	n.in = append(o.spare[last], n.in...)
	o.spare[last] = nil
	o.spare = o.spare[:last]
}

func newHalfOpen(budget *msgbuf.Budget) halfOpen {
	return halfOpen{
		max:     int(min(maxHalfOpen, budget.Limit()/halfOpenPart)),
		perByte: heapCost(), budget: budget, byKey: make(map[connKey]*pendingHandshake),
		shares: make(map[transport.Addr]*openShare),
		ended:  pendingList{link: byShare}, expiry: pendingList{link: byExpiry},
	}
}

// add takes a handshake of a share.
func (o *halfOpen) add(n *pendingHandshake, key transport.Addr) {
	sh := o.shares[key]
	if sh == nil {
		sh = &openShare{key: key, line: pendingList{link: byShare}}
		o.shares[key] = sh
	}
	n.share = sh
	sh.count++
	sh.line.push(n)
	if sh.count == 1 {
		heap.Push(&o.fullest, sh)
	}
	o.gotOn(n)
	o.expiry.push(n)
	o.byKey[n.key] = n
	o.weigh(n)
}

// leave takes a handshake out of its share.
func (o *halfOpen) leave(n *pendingHandshake) {
	sh := n.share
	n.share = nil
	sh.line.remove(n)
	if sh.count--; sh.count > 0 {
		heap.Fix(&o.fullest, sh.place)
		return
	}
	heap.Remove(&o.fullest, sh.place)
	delete(o.shares, sh.key)
}

// remove forgets a handshake that has ended.
func (o *halfOpen) remove(n *pendingHandshake) {
	o.charge(n, 0)
	o.ended.remove(n)
	o.expiry.remove(n)
	delete(o.byKey, n.key)
}

// conclude ends a handshake. That there was one is remembered until it expires.
func (o *halfOpen) conclude(n *pendingHandshake) {
	if n.ended {
		return
	}
	n.ended, n.early = true, nil
	close(n.gone)
	if n.assoc != nil {
		n.assoc.pending = nil
	}
	n.close()
	if cap(n.in) >= leastSpare && len(o.spare) < maxSpare {
		o.spare = append(o.spare, n.in[:0])
		n.in = nil
	}
	o.leave(n)
	o.ended.push(n)
}

// weigh charges what a handshake costs now.
func (o *halfOpen) weigh(n *pendingHandshake) { o.charge(n, n.size()*o.perByte) }

func (o *halfOpen) charge(n *pendingHandshake, cost int) {
	o.cost += cost - n.cost
	n.cost = cost
	for o.charged >= o.cost+2*halfOpenPiece || o.cost == 0 && o.charged > 0 {
		o.charged -= halfOpenPiece
		o.budget.Give(halfOpenPiece)
	}
}

// gotOn notes that a handshake under way has made a step.
func (o *halfOpen) gotOn(n *pendingHandshake) {
	o.steps++
	n.step = o.steps
	n.share.line.remove(n)
	n.share.line.push(n)
	heap.Fix(&o.fullest, n.share.place)
}

// over reports whether handshakes cost more than they may.
func (o *halfOpen) over() bool {
	if o.cost > o.max {
		return true
	}
	for o.charged < o.cost {
		if !o.budget.Take(halfOpenPiece) {
			return true
		}
		o.charged += halfOpenPiece
	}
	return false
}

// victim returns the handshake that is given up first, nil if there is none.
func (o *halfOpen) victim() *pendingHandshake {
	switch {
	case o.ended.first != nil:
		return o.ended.first
	case len(o.fullest) > 0:
		return o.fullest[0].line.first
	}
	return nil
}

// shareHeap holds shares, the one that is to lose a handshake first in front.
type shareHeap []*openShare

func (h shareHeap) Len() int { return len(h) }

func (h shareHeap) Less(i, j int) bool {
	if h[i].count != h[j].count {
		return h[i].count > h[j].count
	}
	return h[i].line.first.step < h[j].line.first.step
}

func (h shareHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *shareHeap) Push(x any) {
	sh := x.(*openShare)
	sh.place = len(*h)
	*h = append(*h, sh)
}

func (h *shareHeap) Pop() any {
	last := len(*h) - 1
	sh := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return sh
}

// HalfOpenBytes returns what half-open handshakes cost, with the garbage that there may be beside.
func (e *Engine) HalfOpenBytes() int64 {
	if e.security == nil {
		return 0
	}
	return int64(e.security.halfOpen.cost)
}

// weigh charges what a pending handshake costs now, and makes room if it is too much. It reports
// false if that handshake itself had to go.
func (e *Engine) weigh(n *pendingHandshake) bool {
	o := &e.security.halfOpen
	o.weigh(n)
	for v := o.victim(); v != nil && o.over(); v = o.victim() {
		if !v.ended {
			e.stats.HandshakesEvicted++
		}
		e.dropPending(v)
	}
	return o.byKey[n.key] == n
}

// dropPending forgets a handshake.
func (e *Engine) dropPending(n *pendingHandshake) {
	e.security.halfOpen.conclude(n)
	e.security.halfOpen.remove(n)
	if n.assoc != nil && n.assoc.keys == nil {
		e.assocs.release(n.assoc)
	}
}

// trusts reports whether a Connect is of a process of this user, and may go without encryption.
func (e *Engine) trusts(c *wire.Connect, from transport.Addr) bool {
	return e.cfg.TrustLocal && c.Offer.Features&wire.FeatureSeal == 0 && e.port.IsPrivate(from)
}

// onTrusted takes a Connect of a process of this user. Whether it is welcome is asked once.
func (e *Engine) onTrusted(c *wire.Connect, p *connectPacket) {
	key := connKey{from: p.From, nonce: c.Nonce}
	switch n := e.security.halfOpen.byKey[key]; {
	case e.security.keys.cfg.Authorize == nil, e.table.byKey[key] != nil:
		e.onProved(c, p.From, p.version)
	case n == nil:
		e.judgeLocal(c, key, p.version)
	case n.ended && n.code != wire.CodeOK:
		e.refuse(c, &p.From, 0, p.version, n.code, n.text)
	}
}

// judgeLocal asks whether a process of this user is welcome.
func (e *Engine) judgeLocal(c *wire.Connect, key connKey, version uint8) {
	n := &pendingHandshake{
		key: key, connect: *c, version: version, gone: make(chan struct{}),
		expires: e.in.Now.Add(e.cfg.Timing.ConnectTimeout),
	}
	n.busy = true
	share, k := e.cfg.Shares.Key(key.from), e.security.keys
	e.security.halfOpen.add(n, share)
	if !e.weigh(n) {
		return
	}
	work := func(ctx context.Context) stepResult {
		return stepResult{err: k.authorize(ctx, localIdentity(key.from, false))}
	}
	done := func(r stepResult) {
		n.busy = false
		if n.over {
			return
		}
		if r.err != nil {
			e.turnAway(n, handshakeError(r.err))
			return
		}
		e.security.halfOpen.conclude(n)
		e.onProved(&n.connect, key.from, n.version)
	}
	if !e.step(share, n.gone, nil, work, done) {
		e.dropPending(n)
	}
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
	n := e.security.halfOpen.byKey[key]
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
	sec, share := e.security, e.cfg.Shares.Key(key.from)
	a := &association{addr: key.from, epoch: c.Epoch, loop: wire.LoopOf(c.Session)}
	if e.refusing || !e.assocs.reserve(a) {
		code := wire.CodeExhausted
		if e.refusing {
			code = wire.CodeShutdown
		}
		e.refuse(c, &key.from, 0, wire.Version, code, "")
		return
	}
	n := &pendingHandshake{
		key: key, connect: *c, version: wire.Version, body: bytes.Clone(body), assoc: a,
		gone:    make(chan struct{}),
		expires: e.in.Now.Add(e.cfg.Timing.ConnectTimeout),
	}
	a.pending, n.theirs = n, index
	sec.halfOpen.add(n, share)
	e.hearPending(n, 0, value)
	if n.hs != nil && len(n.out) == 0 && sec.keys.steps.waits() >= soonDone {
		e.answerPending(n) // the client learns at once that the path carries its packets
	}
}

// start makes the server's side of a handshake, when the client's first message is there.
func (e *Engine) start(n *pendingHandshake) {
	head, tail := wire.Fixed(n.body)
	said := append(bytes.Clone(head), tail...)
	mine := binary.LittleEndian.AppendUint64(nil, e.handshakes.epoch)
	mine = binary.LittleEndian.AppendUint32(mine, n.assoc.field)
	n.hs = e.security.keys.handshake("", false, e.security.rng, security.Opening{
		Judge: func(peer []byte) ([]byte, error) {
			if !bytes.Equal(peer, said) {
				return nil, security.ErrParams
			}
			return mine, nil
		},
	})
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
	n := e.security.halfOpen.byKey[connKey{from: p.From, nonce: c.Nonce}]
	if h := &e.handshakes; n == nil && len(h.connects) > 0 { // its Connect may be among them
		h.early = append(h.early, connectPacket{p, wire.NoSession, len(body), wire.Version})
		return
	}
	if n == nil || n.ended {
		return
	}
	n.took = max(n.took, min(int(c.Ack), len(n.out)))
	if n.busy && int(c.Offset)+len(part) <= n.got {
		e.answerPending(n) // a repetition: the client learns that this side is at work
		return
	}
	e.hearPending(n, c.Offset, part)
}

// maxEarly bounds a sealed datagram that waits for the keys of its handshake, bytes.
const maxEarly = 16 << 10

// tooEarly keeps the first sealed datagram of a client whose keys a worker still makes: it is the
// Open that followed the client's last words.
func (e *Engine) tooEarly(a *association, pkt []byte, from *transport.Addr) {
	n := a.pending
	if n == nil || n.early != nil || n.key.from != *from || len(pkt) > maxEarly {
		e.stats.DropSealed++
		return
	}
	n.early = bytes.Clone(pkt)
	e.weigh(n)
}

// hearPending takes a part of a client's stream, and goes on with the handshake.
func (e *Engine) hearPending(n *pendingHandshake, offset uint32, part []byte) {
	e.security.halfOpen.room(n, len(part))
	if !n.take(offset, part) {
		e.turnAway(n, security.ErrMessage)
		return
	}
	if n.busy || n.over {
		e.weigh(n)
		return
	}
	in, err := n.next(e.security.keys.psk(n.hs))
	if err != nil {
		e.turnAway(n, err)
		return
	}
	if len(in) > 0 && n.hs == nil {
		e.start(n)
	}
	if !e.weigh(n) || len(in) == 0 {
		return
	}
	// The step may outlive the handshake: it gets what it needs.
	k, hs, share, theirs, own := e.security.keys, n.hs, n.share.key, n.theirs, n.assoc.field
	work := func(ctx context.Context) (r stepResult) {
		if r.out, r.err = hs.Step(in); r.err != nil || !hs.Done() {
			return r
		}
		r.made, r.err = k.associate(ctx, hs, n.key.from, false, theirs)
		if r.err == nil && k.keyLog != nil {
			k.log(n.key.nonce, hs.Secrets(), theirs, own)
		}
		return r
	}
	n.busy = true
	if !e.step(share, n.gone, hs, work, func(r stepResult) { e.steppedPending(n, r) }) {
		n.busy = false // the client repeats it
		n.back(in)
	}
}

// steppedPending takes what a worker has done.
func (e *Engine) steppedPending(n *pendingHandshake, r stepResult) {
	n.busy = false
	if r.lost {
		n.hs = nil
	}
	if n.over {
		n.close()
		n.hs = nil
		return
	}
	from := len(n.out)
	n.out = append(n.out, r.out...)
	e.security.halfOpen.gotOn(n)
	switch {
	case r.err != nil:
		e.turnAway(n, r.err)
	case r.made != nil:
		e.finishPending(n, r.made, from)
	default:
		if len(r.out) > 0 {
			e.sendPending(n, from)
		}
		e.hearPending(n, uint32(n.got), nil) // what has come meanwhile
	}
}

// finishPending gives a client's association its keys. What the stream says from a place on comes
// after the handshake: a ticket. An Open may have come before the keys.
func (e *Engine) finishPending(n *pendingHandshake, m *made, from int) {
	a, early := n.assoc, n.early
	e.security.halfOpen.conclude(n)
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
		c := wire.Crypto{Nonce: n.key.nonce, Ack: uint32(n.got)}
		e.sendStream(&a.addr, a.field, wire.NoSession, &c, n.out, from, int(n.connect.Offer.MTU))
	}
	n.stream = stream{over: true}
	e.security.halfOpen.weigh(n)
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
	c := wire.Crypto{Nonce: n.key.nonce, Ack: uint32(n.got)}
	mtu := int(n.connect.Offer.MTU)
	e.sendStream(&n.key.from, 0, n.connect.Session, &c, n.out, from, mtu)
}

// turnAway ends a handshake that has failed, and tells the client.
func (e *Engine) turnAway(n *pendingHandshake, err error) {
	n.code, n.text = wire.CodeDenied, err.Error()
	e.security.halfOpen.conclude(n)
	if n.assoc != nil {
		e.assocs.release(n.assoc)
	}
	if n.busy {
		n.stream = stream{hs: n.hs, busy: true, over: true} // the worker's result ends it
	} else {
		n.stream = stream{over: true}
	}
	e.security.halfOpen.weigh(n)
	e.cfg.Logger.Info("handshake failed", "peer", n.key.from.String(), "error", err)
	e.refuse(&n.connect, &n.key.from, 0, n.version, wire.CodeDenied, err.Error())
}

// expirePending forgets handshakes that have taken too long.
func (e *Engine) expirePending() {
	o := &e.security.halfOpen
	for n := o.expiry.first; n != nil && n.expires <= e.in.Now; n = o.expiry.first {
		e.dropPending(n)
	}
}
