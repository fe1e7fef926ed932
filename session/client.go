package session

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// Op is one request as the client half sees it.
type Op struct {
	Req *msgbuf.Buffer
	// Resp takes the response; its MaxSize bounds it. Nil: the session makes one, also in place of
	// one that wraps too little memory.
	Resp    *msgbuf.Buffer
	Ref     uint32 // the owner's name for the request
	ReqType uint8
	// Four words: the compiler keeps no more in registers.
}

// clientSlot is the state of one request in flight. Packet counts are in the one
// numbering of both directions: see the package comment.
type clientSlot struct {
	op       Op
	deadline monotime.Time // when the owner gives the request up, 0 if never
	reqNum   uint64
	busy     bool
	waits    bool // the server said that the handler waits: it has no credit and no timeout
	cut      wire.Cut
	stalled  bool   // in line for credits
	next     uint8  // slot behind this one in line for credits
	ownsResp bool   // op.Resp came from the session's pool
	quiet    uint8  // packets sent since the last one that asked for a CR
	retries  uint8  // timeouts since the last progress
	fast     uint8  // rollbacks on evidence since the last progress
	pasts    uint8  // tries in a row that the server said are past
	pastTry  uint16 // of the last of these
	try      uint16 // rollbacks of the request; goes with its packets
	hinted   bool   // sent again for a hint, see answeredAgain
	probes   bool   // the peer keeps packets behind a lost one: they are sent again step by step
	per      uint32 // data bytes in a packet of both messages
	numReq   uint32
	numResp  uint32 // 0 until response packet 0 has come
	numTx    uint32
	numRx    uint32
	highTx   uint32        // packets below were sent before a rollback
	txGen    uint64        // Out batch in which request data was last queued
	againGen uint64        // ... and in which it was queued again; 0 if it was not
	sentAt   monotime.Time // when packet 0 was sent
	progress monotime.Time // when the slot last sent after idling, or received
	times    *txTimes      // of packets after the first; nil until needed
	gaveUp   *gaveUp       // nil until it gives one up
}

// held reports whether the slot is in use by a request that was given up.
func (s *clientSlot) held() bool { return s.gaveUp != nil && s.gaveUp.held }

// sent returns when packet k, which has no answer yet, was sent last.
func (s *clientSlot) sent(k uint32) monotime.Time {
	if k > 0 {
		return s.times.at[k&uint32(len(s.times.at)-1)]
	}
	return s.sentAt
}

// sentLast returns when the packet was sent last that the slot waits for. If it has sent others
// behind it, that is since when none has been answered.
func (s *clientSlot) sentLast() monotime.Time {
	if s.numTx-s.numRx == 1 {
		return s.sent(s.numRx)
	}
	return s.progress
}

// expects reports whether an answer may come to a packet of the slot. In line for credits, it may
// have sent only packets that asked for none: others' answers bring it its turn.
func (s *clientSlot) expects() bool {
	n := s.numTx - s.numRx
	return n > uint32(s.quiet) || n > 0 && !s.stalled
}

// recovers reports whether the slot sends packets again and has to wait for an answer first. A slot
// that has sent one packet has nothing to keep, and no times.
func (s *clientSlot) recovers() bool {
	return s.probes && s.numTx >= s.times.stop && s.numTx < s.highTx
}

// keepsBack reports whether a slot has to wait for an answer before it sends more.
func (c *Client) keepsBack(s *clientSlot) bool {
	return s.recovers() || s.numTx-s.numRx >= uint32(c.opening)
}

// forgetAhead forgets which response packets have come ahead of others.
func (s *clientSlot) forgetAhead() {
	if t := s.times; t != nil && t.ahead.n > 0 {
		t.ahead = scoreboard{}
	}
}

// sentTo returns the packet behind those that have been sent. A request that was counted anew has
// none from before.
func (s *clientSlot) sentTo() uint32 {
	if s.highTx == wire.MaxPackets {
		return s.numTx
	}
	return max(s.numTx, s.highTx)
}

// total returns how many packets the client sends for the request, as far as known.
func (s *clientSlot) total() uint32 {
	if s.numResp == 0 {
		return s.numReq
	}
	return s.numReq + s.numResp - 1
}

// Client is the requesting half of a session. The zero Client is not ready; see NewClient.
type Client struct {
	End
	rtt       rtoEstimator
	floor     pathFloor
	pace      pacer
	stats     *Stats
	slots     []clientSlot
	free      []uint8       // free slots, a stack; the top was used last and is warm
	lines     slotLines     // of slots that wait for credits
	stalled   uint8         // slots in them
	hosts     uint32        // that hosts may hold up the packets of a round trip, ns
	sampled   monotime.Time // when the packet was sent that gave the last RTT
	latest    monotime.Time // when the latest packet was sent that has been answered; see answered
	rests     monotime.Time // until then Scan has nothing to do, unless a slot changes; 0: unknown
	credits   int32
	opening   uint16 // packets of a message that may be in flight while the path is unknown
	hungry    bool   // Out.Feed hands out its credits
	overtaken bool   // an answer has shown that other packets are lost
	busy      uint8  // slots in use
	held      uint8  // ... by requests that were given up
	stride    uint8  // packets that one CR or RFR may stand for
	quiet     uint8  // credits held by packets that no CR was asked for yet; less than stride
	open      bool
	closed    bool
	drains    bool     // the peer takes no new requests
	cut       wire.Cut // of requests that begin

	// The slots of most sessions, and their numbers in free. Here, so that all of a session is in one
	// piece of memory: one miss of the TLB, and Prefetch knows where things are.
	inline     [DefaultSlots]clientSlot
	inlineFree [DefaultSlots]uint8

	pool  *msgbuf.Pool
	queue opQueue

	queryAfter time.Duration // how long a waiting request is not asked after
	doubt      doubt
	full       uint32 // Params.PerPacket as agreed; a cut makes that smaller
	window     uint16 // packets that may be in flight: so many of the credits are in use
	first      uint16 // ... at first, and at least; 0: all credits, always
	backoff    backoff
	path       *pathEstimate // nil until credits were missing
}

// ClientHot is how many bytes from the start of a Client on a small RPC touches.
const ClientHot = 536

// txTimes holds what a slot knows of its packets in flight: when each was sent, and which response
// packets came though earlier ones are missing.
type txTimes struct {
	at    []monotime.Time // by packet number & (length-1)
	ahead scoreboard
	// Of a slot that probes: the first packet that is not sent again before an answer, and how many
	// before it were to be sent.
	stop, span uint32
	// The packet from which on the last rollback sent again, and when it was sent before.
	rolled   uint32
	rolledAt monotime.Time
}

// probe has a slot send again span packets, and no others before there is an answer.
func (s *clientSlot) probe(span uint32) {
	s.probes = true
	s.times.stop, s.times.span = s.numRx+span, span
}

// NewClient returns a client half that queues requests until Open is called. The session has
// the number local at this side, and packets to it carry token. MaxQueue bounds the requests
// that wait for a slot. Responses for which the request brings no buffer get one of pool.
// Pacing is nil for no congestion control.
func NewClient(
	peer packet.Addr, local, token uint32, t Timing, maxQueue int,
	pool *msgbuf.Pool, pacing *Pacing, stats *Stats,
) *Client {
	c := new(Client)
	c.Init(peer, local, token, t, maxQueue, pool, pacing, stats)
	return c
}

// Init is NewClient in memory that the caller has.
func (c *Client) Init(
	peer packet.Addr, local, token uint32, t Timing, maxQueue int,
	pool *msgbuf.Pool, pacing *Pacing, stats *Stats,
) {
	c.End = End{Peer: peer, Local: local, LocalToken: token}
	c.pool, c.stats, c.queue.max = pool, stats, int32(min(maxQueue, math.MaxInt32))
	c.rtt, c.pace = newRTOEstimator(&t), newPacer(pacing)
	c.queryAfter = t.FailureTimeout / 2
	// Until Open there is one slot that is never busy, so that a packet of the peer always finds a
	// slot.
	c.slots = c.inline[:1]
}

// Readdress makes a session that is not open one with another endpoint.
func (c *Client) Readdress(peer packet.Addr, t Timing, pacing *Pacing) {
	c.Peer = peer
	c.rtt, c.pace = newRTOEstimator(&t), newPacer(pacing)
	c.queryAfter = t.FailureTimeout / 2
}

// Open makes the session usable with the agreed params. Remote and token name the session at
// the peer. Queued requests start, and what is too large for the session fails; rtt, if not 0,
// is the first sample. The outcome after those is EventOpened.
func (c *Client) Open(
	p Params, remote, token uint32, rtt time.Duration, now monotime.Time, out *Out,
) {
	c.Params, c.Remote, c.RemoteToken = p, remote, token
	c.fillVersion()
	c.full = uint32(p.PerPacket)
	c.stride = uint8(p.stride())
	c.openWindow()
	if p.Slots <= DefaultSlots {
		c.slots, c.free = c.inline[:p.Slots], c.inlineFree[:p.Slots]
	} else {
		c.slots, c.free = make([]clientSlot, p.Slots), make([]uint8, p.Slots)
	}
	for i := range c.free {
		c.slots[i].reqNum = uint64(i)
		c.free[i] = uint8(p.Slots - 1 - i)
	}
	c.rtt.sample(rtt)
	if rtt > 0 {
		c.floor.took(rtt)
	}
	c.open = true
	c.startQueued(now, out)
	out.Tell(EventOpened, c.Local)
}

// Start begins a request, or queues it when all slots are in use or the session is
// not open yet. The session owns the buffers until the request ends. The server learns the
// deadline, at which the owner calls Cancel; 0 is none. Errors:
// ErrClosed, ErrDraining, ErrTooLarge, ErrExhausted (queue full); then nothing has happened. One
// that is too large for a session that is not open yet fails once it is.
func (c *Client) Start(op Op, deadline, now monotime.Time, out *Out) error {
	if c.closed || c.drains {
		return c.refusal()
	}
	if !c.open {
		return c.queue.push(op, deadline)
	}
	if err := c.check(&op); err != nil {
		return err
	}
	if len(c.free) == 0 || c.queue.n > 0 {
		return c.queue.push(op, deadline)
	}
	c.begin(op, deadline, now, out)
	return nil
}

// refusal says why no request starts.
func (c *Client) refusal() error {
	if c.closed {
		return ErrClosed
	}
	return ErrDraining
}

func (c *Client) check(op *Op) error {
	n := op.Req.Size()
	if n > c.MaxMessage || n > c.PerPacket && packets(n, c.PerPacket) > c.maxPackets() {
		return ErrTooLarge
	}
	return nil
}

// begin puts op into a free slot and sends what credits allow.
func (c *Client) begin(op Op, deadline, now monotime.Time, out *Out) {
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[i]
	s.op, s.deadline = op, deadline
	s.reqNum += uint64(len(c.slots))
	if s.reqNum >= lastReqNum {
		c.spend(out)
	}
	s.busy, c.rests = true, 0
	s.retries, s.fast, s.try, s.pasts, s.probes, s.hinted = 0, 0, 0, 0, false, false
	s.ownsResp = false
	s.per, s.cut = uint32(c.PerPacket), c.cut
	s.numReq = packets(op.Req.Size(), c.PerPacket)
	s.numResp = 0
	s.numTx, s.numRx, s.highTx, s.againGen = 0, 0, 0, 0
	s.forgetAhead()
	s.progress = now
	c.busy++
	if s.numReq == 1 && c.credits > 0 && c.stalled == 0 && (!c.pace.gated || c.may(true, now, out)) {
		c.sendOnly(s, now, out)
		return
	}
	c.rested(now)
	c.kick(i, now, out)
}

// lastReqNum is the first request number after which a slot may have no further one, in any version
// of the protocol.
const lastReqNum = wire.MaxReqNum + 1 - MaxSlots

// spend lets no further request begin: the slot of the one at hand has no numbers left. A session
// with many slots, whose calls follow each other, gets there after weeks.
//
//go:noinline
func (c *Client) spend(out *Out) {
	if c.Drain(out) {
		out.add(EventSpent).Session = c.Local
	}
}

// elicits returns the size of the response packet that the RFR with number k asks for,
// header included: RFRs are paced as what they cause.
func (c *Client) elicits(s *clientSlot, k uint32) int {
	return wire.HeaderSize + payload(s.op.Resp.Size(), int(s.per), k-(s.numReq-1))
}

// rfrSize returns how many response packets the slot's next RFR asks for: several at a time where
// nothing is paced or was lost. 0 means to wait: the credits of answers that are on the way allow a
// larger one.
func (c *Client) rfrSize(s *clientSlot) uint32 {
	if s.numTx < s.highTx {
		return 1
	}
	want := min(uint32(c.together()), s.total()-s.numTx)
	if n := min(want, uint32(c.credits)); n == want || s.numTx == s.numRx || c.stalled > 1 {
		return n
	}
	return 0
}

// skipCR reports whether request packet k needs no CR of its own, and counts it then. A packet
// needs one if it is the last that can have any, if others gathered, if it may be lost, and
// while the rate follows the CRs.
func (c *Client) skipCR(s *clientSlot, k uint32, now monotime.Time) bool {
	if k-s.numRx == uint32(s.quiet) {
		s.progress = now // no answer was outstanding: the timeout starts here
	}
	if k+2 < s.numReq && c.quiet+1 < c.together() && k >= s.highTx {
		s.quiet++
		c.quiet++
		return true
	}
	c.clearQuiet(s)
	return false
}

// clearQuiet forgets the slot's quiet packets.
func (c *Client) clearQuiet(s *clientSlot) {
	c.quiet -= s.quiet
	s.quiet = 0
}

// sendNext sends the slot's next packet: request data, or an RFR for n response packets.
func (c *Client) sendNext(s *clientSlot, n uint32, now monotime.Time, out *Out) {
	k := s.numTx
	var h wire.Header // not a literal, which would be built elsewhere and copied
	h.ReqType, h.Hold, h.ReqNum, h.PktNum = s.op.ReqType, wire.TryHold(s.try, 0), s.reqNum, k
	h.Flags = s.cut.Flags()
	if k < s.numReq {
		h.Type = wire.TypeReq
		h.MsgSize = uint32(s.op.Req.Size())
		head, data := s.op.Req.Packet(int(k), int(s.per))
		s.txGen = out.gen
		if s.numReq > 2 && c.skipCR(s, k, now) {
			h.Flags |= wire.FlagQuiet
		}
		if k == 0 && s.deadline != 0 {
			h.Hold = wire.TryRemaining(s.try, s.deadline.Sub(now))
		}
		c.send(out, &h, head, data)
		if c.pace.gated {
			c.pace.charge(len(head) + len(data))
		}
	} else {
		h.Type, h.MsgSize = wire.TypeRFR, n-1
		c.sendControl(out, &h)
		if c.pace.gated {
			for j := range n {
				c.pace.charge(c.elicits(s, k+j))
			}
		}
	}
	if k < s.highTx {
		c.resent(s, k, out)
	} else if k == 0 && s.op.Ref&Marked != 0 {
		out.add(EventSent).Ref = s.op.Ref
	}
	if s.numTx == s.numRx {
		s.progress = now // nothing was outstanding: the timeout starts here
	}
	s.numTx += n
	c.credits -= int32(n)
	if k == 0 {
		s.sentAt = now
	} else {
		for ; k < s.numTx; k++ {
			c.noteTime(s, k, now)
		}
	}
	if invariants.Enabled && c.credits < 0 {
		panic("session: credits below zero")
	}
}

// resent counts packet k of a slot, which was sent before.
//
//go:noinline
func (c *Client) resent(s *clientSlot, k uint32, out *Out) {
	c.stats.Retransmits++
	if s.fast > 0 {
		c.stats.FastResends++
	}
	if k < s.numReq {
		s.againGen = out.gen
	}
}

// noteTime remembers when packet k > 0 was sent.
func (c *Client) noteTime(s *clientSlot, k uint32, now monotime.Time) {
	if s.times == nil {
		s.times = new(txTimes)
	}
	if int(k-s.numRx) >= len(s.times.at) {
		s.moreTimes(min(c.Window(), timesAtFirst))
	}
	s.times.at[k&uint32(len(s.times.at)-1)] = now
}

// timesAtFirst is how many packets of a slot have a time at first.
const timesAtFirst = 128

// moreTimes makes room for the times of least packets, and twice as many as before.
func (s *clientSlot) moreTimes(least int) {
	old := s.times.at
	n := max(1, 2*len(old))
	for n < least {
		n <<= 1
	}
	at := make([]monotime.Time, n)
	for k := s.numRx; k < s.numRx+uint32(len(old)); k++ {
		at[k&uint32(n-1)] = old[k&uint32(len(old)-1)]
	}
	s.times.at = at
}

// startQueued moves waiting requests into free slots.
func (c *Client) startQueued(now monotime.Time, out *Out) {
	for c.queue.n > 0 && len(c.free) > 0 {
		op, deadline := c.queue.pop()
		if err := c.check(&op); err != nil {
			c.fail(op.Ref, err, out)
			continue
		}
		c.begin(op, deadline, now, out)
	}
}

// fail ends request ref on this side. It is rare.
//
//go:noinline
func (c *Client) fail(ref uint32, err error, out *Out) {
	ev := out.add(EventFailed)
	ev.Ref, ev.Err = ref, err
}

// release frees slot s, number i; its credits must be back. A response buffer that the
// session made and nobody took is freed.
func (c *Client) release(s *clientSlot, i uint8) {
	if s.ownsResp {
		s.op.Resp.Return()
		s.op.Resp.Free()
		s.ownsResp = false
	}
	c.clearQuiet(s)
	s.busy, s.waits = false, false
	s.op = Op{}
	c.busy--
	c.free = append(c.free, i)
}

// Idle reports whether there is nothing to scan: no request is in a slot or in the queue, and no
// slot is held.
func (c *Client) Idle() bool { return c.busy == 0 && c.queue.n == 0 && c.held == 0 }

// Resting reports whether every request under way, or given up, waits at the server: nothing is
// overdue soon.
func (c *Client) Resting() bool {
	return (c.busy > 0 || c.held > 0) && c.restsUntil() > 0
}

// restsUntil returns when the first of those requests is to be asked after, or 0 if one does not
// wait.
func (c *Client) restsUntil() monotime.Time {
	until := monotime.Never
	for i := range c.slots {
		s := &c.slots[i]
		switch {
		case s.busy && !s.waits, !s.busy && s.held() && !s.gaveUp.runs:
			return 0
		case s.busy:
			until = min(until, s.progress.Add(c.queryAfter))
		case s.held():
			until = min(until, s.gaveUp.at.Add(c.queryAfter))
		}
	}
	return until
}

// Arriving returns how many bytes of requests the server has not said that it has: of those of
// fewer than least bytes, and of larger ones.
func (c *Client) Arriving(least int) (small, large int) {
	for i := range c.slots {
		s := &c.slots[i]
		if s.busy && !s.waits && !s.held() && s.numRx < s.numReq {
			size := s.op.Req.Size()
			n := min(int(s.numReq-s.numRx)*int(s.per), size)
			if size < least {
				small += n
			} else {
				large += n
			}
		}
	}
	return small, large
}

// Pending returns how many requests are in slots and in the queue.
func (c *Client) Pending() (inFlight, queued int) { return int(c.busy), c.queue.n }

// FreeCredits returns the credits not in use; 0 if the window is smaller than what is in flight.
func (c *Client) FreeCredits() int {
	if c.doubt.paused {
		return max(0, int(c.credits)+withheld)
	}
	return max(0, int(c.credits))
}

// gaveUp is a slot's memory of the last request that it gave up.
type gaveUp struct {
	num     uint64
	reqType uint8
	held    bool // the slot is in use until the server says that it is free: the CANCEL is repeated
	runs    bool // the server has said that the handler still runs, and will say when it ends
	tries   uint8
	at      monotime.Time // of the last CANCEL
	since   monotime.Time // of the first one
}

// maxSkip is how many uses of a slot a packet may be ahead of what the server has seen. More is no
// honest client.
const maxSkip = 1 << 16

// Cancel ends request ref with the reason err, and tells the server. The server may or may not run
// it, or be running it. The owner asks for a flush before, since packets of the request may be in
// queues. Cancel returns false if no such request is here.
func (c *Client) Cancel(ref uint32, err error, now monotime.Time, out *Out) bool {
	if c.queue.remove(ref) {
		c.fail(ref, err, out)
		return true
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.busy && s.op.Ref == ref {
			c.giveUp(uint8(i), now, out)
			c.fail(ref, err, out)
			return true
		}
	}
	return false
}

// giveUp ends the request in slot i before its answer has come. Its handler may run, and then the
// server takes no newer request in the slot. So if any packet has left, the slot stays in use until
// the server says that it is free; the CANCEL is repeated until then.
func (c *Client) giveUp(i uint8, now monotime.Time, out *Out) {
	s := &c.slots[i]
	sent := s.numTx > 0 || s.highTx > 0
	c.credits += int32(s.numTx - s.numRx)
	if c.queued(s, out) {
		out.Flush()
	}
	reqType := s.op.ReqType
	c.release(s, i)
	if sent {
		c.free = c.free[:len(c.free)-1] // where release has just put it
		c.held++
		if s.gaveUp == nil {
			s.gaveUp = new(gaveUp)
		}
		*s.gaveUp = gaveUp{num: s.reqNum, reqType: reqType, held: true, since: now}
		c.rests = 0
		c.sendCancel(s, now, out)
	} else {
		s.reqNum -= uint64(len(c.slots)) // nobody has seen the number
	}
	if c.stalled > 0 {
		c.pump(now, out)
	}
	if c.queue.n > 0 {
		c.startQueued(now, out)
	}
}

func (c *Client) sendCancel(s *clientSlot, now monotime.Time, out *Out) {
	c.sendControl(out, &wire.Header{
		Type: wire.TypeCancel, ReqType: s.gaveUp.reqType, ReqNum: s.reqNum,
		Hold: wire.TryHold(uint16(s.gaveUp.tries), 0),
	})
	s.gaveUp.at = now
}

// Held returns how many slots are in use by requests that were given up.
func (c *Client) Held() int { return int(c.held) }

// OnPast takes the server's word that a slot has seen the number of a packet, or a newer one. For
// a request under way that should not be: a packet whose number was damaged may have used it up.
// Several in a row end the session, since the request would never be answered. They prove nothing
// about its handler. For a request that was given up it says whether the slot is free.
func (c *Client) OnPast(h *wire.Header, in *Arrival, out *Out) {
	i := uint8(h.ReqNum & uint64(len(c.slots)-1))
	s := &c.slots[i]
	if s.reqNum != h.ReqNum {
		c.stats.DropPast++
		return
	}
	if s.busy {
		c.countPast(s, h, out)
		return
	}
	g := s.gaveUp
	if g == nil || g.num != h.ReqNum || !g.held {
		c.stats.DropPast++
		return
	}
	if wire.SlotBusy(h.Hold) {
		g.runs, g.tries = true, 0
		return
	}
	g.held = false
	c.held--
	c.free = append(c.free, i)
	c.startQueued(in.Now, out)
	out.add(EventFreed).Session = c.Local
}

// maxPasts is how many tries in a row are past until the session is given up.
const maxPasts = 4

// countPast counts the tries of a request that are past.
func (c *Client) countPast(s *clientSlot, h *wire.Header, out *Out) {
	if !wire.SameTry(h.Hold, s.try) || s.pasts > 0 && wire.SameTry(s.pastTry, s.try) {
		c.stats.DropPast++
		return
	}
	s.pastTry = s.try
	if s.pasts++; s.pasts == maxPasts {
		ev := out.add(EventBroken)
		ev.Session, ev.Err = c.Local, ErrOutOfStep
	}
}

// Drain takes the peer's word that it shuts down. Requests of which nothing was sent end with
// ErrDraining, and no new ones start. It reports whether that is news.
func (c *Client) Drain(out *Out) bool {
	if c.drains {
		return false
	}
	c.drains = true
	for c.queue.n > 0 {
		op, _ := c.queue.pop()
		c.fail(op.Ref, ErrDraining, out)
	}
	return true
}

// Awaits reports whether b is the beginning of a packet that this half has sent and that has no
// answer, or begins with such a packet. With checksums only a whole packet shows that. B holds at
// least the header, which is also in h.
func (c *Client) Awaits(h *wire.Header, b []byte) bool {
	if !c.open || h.Session != c.Remote || h.Version != c.Version ||
		h.Type != wire.TypeReq && h.Type != wire.TypeRFR {
		return false
	}
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	k := h.PktNum
	if !s.busy || s.reqNum != h.ReqNum || k < s.numRx || k >= max(s.numTx, s.highTx) {
		return false
	}
	size := wire.HeaderSize
	if k < s.numReq {
		size += payload(s.op.Req.Size(), int(s.per), k)
	}
	return c.TokenIn(b[:min(len(b), size)]) == c.RemoteToken
}

// Draining reports whether the peer takes no new requests.
func (c *Client) Draining() bool { return c.drains }

// Close ends every request with err: those in slots by slot, then the queue in its order. The
// last outcome is EventClosed. It refuses new ones. The owner asks for a flush before, as for
// Cancel.
func (c *Client) Close(err error, out *Out) {
	c.closed = true
	for i := range c.slots {
		if s := &c.slots[i]; s.busy {
			c.fail(s.op.Ref, err, out)
			c.credits += int32(s.numTx - s.numRx)
			c.release(s, uint8(i))
		}
	}
	for c.queue.n > 0 {
		op, _ := c.queue.pop()
		c.fail(op.Ref, err, out)
	}
	c.lines, c.stalled, c.held = slotLines{}, 0, 0
	out.add(EventClosed).Session = c.Local
}

// OnWait takes the server's word that it has the whole request and the handler waits. The request
// gives its credit back and is not repeated any more, unless the server asks to keep it: then
// only the timeouts go on.
func (c *Client) OnWait(h *wire.Header, in *Arrival, out *Out) {
	s, _ := c.accept(h)
	if s == nil {
		return
	}
	if h.PktNum != s.numReq-1 {
		c.stats.DropSize++
		return
	}
	s.pasts = 0
	c.doubt.answered = true
	if s.waits || h.Flags&wire.FlagKeep != 0 {
		return
	}
	retries, fast := s.retries, s.fast
	s.retries, s.fast = 0, 0
	s.progress = in.Now
	rtt := c.waitRTT(s, h, in.Now, retries, fast)
	c.learn(in, rtt, wire.HeaderSize, h)
	c.credits += int32(s.numTx - s.numRx)
	s.numRx, s.numTx = s.numReq-1, s.numReq-1
	s.highTx = max(s.highTx, s.numReq)
	c.clearQuiet(s)
	s.waits, s.probes = true, false
	ref := s.op.Ref
	if c.stalled > 0 {
		c.pump(in.Now, out)
	}
	ev := out.add(EventProgress)
	ev.Ref, ev.RTT = ref, rtt
}

// waitRTT returns the round trip of a packet that a WAIT answers, 0 if it is not known.
func (c *Client) waitRTT(
	s *clientSlot, h *wire.Header, now monotime.Time, retries, fast uint8,
) time.Duration {
	if h.PktNum >= s.numTx {
		return 0 // an earlier copy completed the request: the others have come without it
	}
	if !wire.SameTry(h.Hold, s.try) { // an answer to an earlier copy
		c.keep(retries, fast, s.sent(h.PktNum), now)
		return 0
	}
	held, known := wire.CoarseHold(h.Hold)
	if !known {
		return 0
	}
	took := now.Sub(s.sent(h.PktNum))
	rtt := c.floor.check(took, max(took-held, 1))
	c.rtt.sample(rtt)
	return rtt
}

// scanQuiet looks after a slot that expects no answer, or one to its CANCEL. A waiting request is
// asked after now and then, so that one that the server has lost ends; so is a slot whose handler
// runs though its request was given up, since the word that it has ended may be lost. It returns
// how many CANCELs in a row have had no answer.
func (c *Client) scanQuiet(i uint8, now monotime.Time, out *Out) (retries uint8) {
	s := &c.slots[i]
	if s.busy {
		if s.waits && now.Sub(s.progress) >= c.queryAfter {
			c.rollback(i, now, out)
		}
		return 0
	}
	if !s.held() {
		return 0
	}
	g, wait := s.gaveUp, c.queryAfter
	if !g.runs {
		wait = c.rtt.timeout(g.tries)
	}
	if now.Sub(g.at) < wait {
		return 0
	}
	g.tries = min(g.tries+1, 254)
	c.stats.Retransmits++
	c.sendCancel(s, now, out)
	return g.tries // also while the handler runs: the server may have ended the session unheard
}

// ack tells the server that its late answer, or all of a large one, is here.
func (c *Client) ack(h *wire.Header, out *Out) {
	c.sendControl(out, &wire.Header{
		Type: wire.TypeAck, ReqType: c.requestType(h), ReqNum: h.ReqNum, PktNum: h.PktNum,
	})
}

// requestType returns the type of the request that h answers; 0 if it is not known any more.
func (c *Client) requestType(h *wire.Header) uint8 {
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	switch {
	case h.Version == wire.OldVersion:
		return h.ReqType
	case s.busy && s.reqNum == h.ReqNum:
		return s.op.ReqType
	case s.gaveUp != nil && s.gaveUp.num == h.ReqNum:
		return s.gaveUp.reqType
	}
	return 0
}

// ackForgotten acknowledges a late answer to a request that has ended here: nobody waits for it.
func (c *Client) ackForgotten(h *wire.Header, out *Out) {
	if h.Flags&wire.FlagLate == 0 {
		return
	}
	s := &c.slots[h.ReqNum&uint64(len(c.slots)-1)]
	if h.ReqNum < s.reqNum || h.ReqNum == s.reqNum && (!s.busy || h.PktNum < s.numRx) {
		c.ack(h, out)
	}
}

// opQueue is a bounded FIFO of waiting requests that grows to what was needed.
type opQueue struct {
	buf  []queuedOp // length a power of two
	head int32
	max  int32
	n    int
}

// queuedOp is a request that waits, with its deadline.
type queuedOp struct {
	Op
	deadline monotime.Time
}

func (q *opQueue) push(op Op, deadline monotime.Time) error {
	if q.n >= int(q.max) {
		return ErrExhausted
	}
	if q.n == len(q.buf) {
		bigger := make([]queuedOp, max(16, 2*len(q.buf)))
		for i := range q.n {
			bigger[i] = *q.at(i)
		}
		q.buf, q.head = bigger, 0
	}
	*q.at(q.n) = queuedOp{op, deadline}
	q.n++
	return nil
}

func (q *opQueue) at(i int) *queuedOp { return &q.buf[(int(q.head)+i)&(len(q.buf)-1)] }

func (q *opQueue) pop() (op Op, deadline monotime.Time) {
	op, deadline = q.at(0).Op, q.at(0).deadline
	*q.at(0) = queuedOp{}
	q.head = (q.head + 1) & int32(len(q.buf)-1)
	q.n--
	return op, deadline
}

// remove takes the request named ref out of the queue.
func (q *opQueue) remove(ref uint32) bool {
	for i := range q.n {
		if q.at(i).Ref != ref {
			continue
		}
		for j := i; j < q.n-1; j++ {
			*q.at(j) = *q.at(j + 1)
		}
		q.n--
		*q.at(q.n) = queuedOp{}
		return true
	}
	return false
}
