package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// OnCR takes a credit return. The header is parsed, and End.Names has accepted the packet.
// The server takes request packets in order only, so that a CR speaks for all
// packets before its own as well, whose CRs may be lost.
func (c *Client) OnCR(h *wire.Header, body []byte, in *Arrival, out *Out) {
	s, i := c.accept(h)
	if s == nil {
		return
	}
	if h.Flags&wire.FlagGap != 0 {
		c.onGap(i, h, body, in.Now, out)
		return
	}
	if h.PktNum >= s.numReq-1 {
		c.stats.DropSize++ // no CR exists for the last request packet
		return
	}
	c.progress(i, h, in, int(h.PktNum+1-s.numRx)*(wire.HeaderSize+int(s.per)), out)
}

// progress takes an answer of n bytes, header included, that is not the last one.
func (c *Client) progress(i uint8, h *wire.Header, in *Arrival, n int, out *Out) {
	s := &c.slots[i]
	answered := h.PktNum + 1 - s.numRx
	rtt := c.received(s, h, in.Now)
	c.learn(in, rtt, n, h)
	c.follow(answered, in.Now)
	ref := s.op.Ref
	if ref&Marked != 0 && h.Type == wire.TypeResp && h.PktNum+1 == s.numReq {
		out.add(EventAnswered).Ref = ref
	}
	c.gather(i, in.Now, out)
	ev := out.add(EventProgress)
	ev.Ref, ev.RTT = ref, rtt
}

// OnResp takes a response packet and copies its data to the response buffer. The header is
// parsed, and End.Names has accepted the packet. When the request ends with it the
// slot may already be in use for the next request.
func (c *Client) OnResp(h *wire.Header, data []byte, in *Arrival, out *Out) {
	s, i := c.accept(h)
	if s == nil {
		c.ackForgotten(h, out)
		return
	}
	if n := len(data); h.PktNum+1 == s.numReq && n == int(h.MsgSize) && uint32(n) <= s.per &&
		n <= c.MaxMessage && s.op.Resp != nil && n <= s.op.Resp.MaxSize() { // nearly every response
		if h.Flags&wire.FlagLate != 0 {
			c.ack(h, out)
		}
		s.op.Resp.SetSize(n)
		copy(s.op.Resp.Bytes(), data)
		s.numResp = 1
	} else if !c.onPart(s, i, h, data, in, out) {
		return
	}
	ref, resp := s.op.Ref, s.op.Resp
	if h.MsgSize >= ackSize {
		c.ack(h, out)
	}
	rtt := c.received(s, h, in.Now)
	c.learn(in, rtt, wire.HeaderSize+len(data), h)
	if c.pace.losses {
		c.noLoss(1, in.Now)
	}
	s.ownsResp = false
	c.finish(s, i, in.Now, out)
	if c.overtaken {
		c.rollbackOvertaken(in.Now, out)
	}
	ev := out.add(EventDone)
	ev.Ref, ev.RTT, ev.Resp = ref, rtt, resp
}

// onPart takes a packet of a response of several, or one whose buffer must be made. It reports
// whether the response is whole now, and in its buffer.
func (c *Client) onPart(
	s *clientSlot, i uint8, h *wire.Header, data []byte, in *Arrival, out *Out,
) (whole bool) {
	if h.PktNum+1 < s.numReq {
		c.stats.DropSize++ // a response before the last request packet
		return false
	}
	j := h.PktNum - (s.numReq - 1)
	if j > 0 && h.PktNum > s.numRx {
		c.onAhead(i, h, data, j, in.Now, out)
		return false
	}
	if len(data) != payload(int(h.MsgSize), int(s.per), j) {
		c.stats.DropSize++
		return false
	}
	if h.Flags&wire.FlagLate != 0 {
		c.ack(h, out)
	}
	if j == 0 && !c.firstResp(i, s, h, in.Now, out) {
		return false
	}
	if int(h.MsgSize) != s.op.Resp.Size() {
		c.stats.DropSize++
		return false
	}
	copy(s.op.Resp.Bytes()[int(j)*int(s.per):], data)
	if j > 0 && s.times.ahead.n > 0 {
		h.PktNum = s.times.ahead.pass(h.PktNum+1) - 1 // with those that have come before
	}
	if h.PktNum+1 < s.total() {
		c.progress(i, h, in, wire.HeaderSize+len(data), out)
		return false
	}
	return true
}

// onAhead takes response packet j, which has come though earlier ones are missing: they are lost,
// and asked for again. Those behind them are kept.
func (c *Client) onAhead(
	i uint8, h *wire.Header, data []byte, j uint32, now monotime.Time, out *Out,
) {
	s := &c.slots[i]
	b := &s.times.ahead
	if h.PktNum >= s.total() || int(h.MsgSize) != s.op.Resp.Size() ||
		len(data) != payload(int(h.MsgSize), int(s.per), j) {
		c.stats.DropSize++
		return
	}
	if h.PktNum-s.numRx >= maxAhead || !b.add(h.PktNum) {
		c.stats.DropFuture++
	} else {
		copy(s.op.Resp.Bytes()[int(j)*int(s.per):], data)
	}
	c.lost(i, h.Hold, b.hole(s.numRx), now, out)
}

// ackSize is the least size in bytes of a response whose last packet is acknowledged, so that the
// server need not keep it until the slot's next request comes.
const ackSize = 1 << 20

// firstResp learns the response's size from its packet 0. It returns false if the response
// cannot be taken, which ends the request.
func (c *Client) firstResp(
	i uint8, s *clientSlot, h *wire.Header, now monotime.Time, out *Out,
) bool {
	size := int(h.MsgSize)
	numResp := packets(size, int(s.per))
	err := c.fitResp(s, size)
	if err != nil || s.numReq+numResp-1 > c.maxPackets() {
		if err == nil {
			err = ErrTooLarge
		}
		ref := s.op.Ref
		c.received(s, h, now)
		c.finish(s, i, now, out)
		c.fail(ref, err, out)
		return false
	}
	s.op.Resp.SetSize(size)
	s.numResp = numResp
	return true
}

// fitResp sees that the response buffer exists and takes size bytes.
func (c *Client) fitResp(s *clientSlot, size int) error {
	if size > c.MaxMessage {
		return ErrTooLarge
	}
	if s.op.Resp == nil || size > s.op.Resp.MaxSize() && s.op.Resp.Wrapped() {
		buf, err := c.pool.Alloc(size)
		if err != nil {
			return ErrExhausted
		}
		_ = buf.Lend() // fresh from the pool: it cannot be lent
		s.op.Resp, s.ownsResp = buf, true
	}
	if size > s.op.Resp.MaxSize() {
		return ErrTooLarge
	}
	return nil
}

// OnErr ends a request with the server's error. An error may answer any packet
// that is outstanding, so it need not be the next one.
func (c *Client) OnErr(h *wire.Header, body []byte, in *Arrival, out *Out) {
	s, i := c.accept(h)
	if s == nil {
		c.ackForgotten(h, out)
		return
	}
	e, err := wire.ParseError(body)
	if err != nil {
		c.stats.DropSize++
		return
	}
	if h.Flags&wire.FlagLate != 0 {
		c.ack(h, out)
	}
	ref := s.op.Ref
	if out.lends && h.PktNum+1 < min(s.sentTo(), s.numReq) {
		out.Flush() // nothing proves that the packets behind the refused one have left
	}
	c.finish(s, i, in.Now, out)
	ev := out.add(EventError)
	out.fault = e
	ev.Ref, ev.Fault = ref, &out.fault
}

// accept applies the client's rule (eRPC, section 5.3): the request is current, the packet
// answers one that was sent and has no answer yet, and both sides count it in the same packets. It
// returns the slot and its number, nil if the packet is dropped.
func (c *Client) accept(h *wire.Header) (s *clientSlot, i uint8) {
	i = uint8(h.ReqNum & uint64(len(c.slots)-1))
	s = &c.slots[i]
	pkt := h.PktNum
	switch {
	case !s.busy || s.reqNum != h.ReqNum || pkt < s.numRx || h.Flags.Cut() != s.cut:
		c.stats.DropPast++
	case pkt >= s.sentTo() && !(s.waits && pkt == s.numReq-1):
		c.stats.DropUnsent++
	default:
		return s, i
	}
	return nil, 0
}

// received counts the answer to packet h.PktNum, which answers all packets before it
// too, and returns its RTT, 0 if it cannot be known.
func (c *Client) received(s *clientSlot, h *wire.Header, now monotime.Time) time.Duration {
	k := h.PktNum
	if s.waits { // the answer takes no credit
		s.waits, s.numTx, c.rests = false, s.numReq, 0
		c.credits--
	}
	jumps := false
	if k < s.numTx && !s.probes { // nearly always
		c.credits += int32(k + 1 - s.numRx)
		s.numRx = k + 1
	} else {
		jumps = c.receivedTo(s, k+1)
	}
	retries, fast := s.retries, s.fast
	if jumps {
		fast = 0 // what was sent again was lost
	}
	s.retries, s.fast, s.pasts = 0, 0, 0
	s.progress = now
	held := time.Duration(0)
	if k == s.numReq-1 {
		held = time.Duration(h.Hold) * wire.HoldUnit
		c.rtt.handled(held)
		if h.Hold == wire.HoldUnknown {
			return 0 // the handler was slow, which says nothing about the path
		}
		if k < s.highTx { // an answer to which copy? (Karn)
			c.keep(retries, fast, s.sent(k), now)
			if !s.hinted {
				c.answeredAgain(s.sent(k), now)
			}
			return 0
		}
	} else {
		if !wire.SameTry(h.Hold, s.try) { // an answer to an earlier copy
			if !jumps {
				c.keep(retries, fast, s.sent(k), now)
			}
			c.sampleEarlier(s, h, jumps, now)
			return 0
		}
		if jumps {
			return 0 // that packet was not sent again
		}
		var known bool
		if held, known = c.floor.hold(h.Hold); !known {
			c.rtt.lateBy(now.Sub(s.sent(k)))
			c.answersTo(s.sent(k)) // such an answer ends no round: a late host says nothing of the path
			return 0
		}
	}
	at := s.sent(k)
	c.cameFrom(at)
	took := now.Sub(at)
	rtt := max(took-held, 1)
	if f := &c.floor; took < f.min || rtt < f.min>>1 || f.min == 0 {
		rtt = f.check(took, rtt)
	}
	if took >= held { // else a clock was read too early or too late at one of the ends
		c.rtt.sample(rtt)
	}
	return rtt
}

// cameFrom notes when the packet was sent that a sample is of.
func (c *Client) cameFrom(at monotime.Time) {
	c.sampled = at
	c.answersTo(at)
}

// answersTo notes when the packet was sent that an answer just taken answers.
func (c *Client) answersTo(at monotime.Time) {
	latest := c.answered()
	*latest = max(*latest, at)
}

// sampleEarlier takes the round trip of a packet of which h answers a copy before the last one, or
// the only one, if others were sent again. Where queues are longer than timeouts, few answers are
// to last copies. It makes the timeout no shorter.
func (c *Client) sampleEarlier(s *clientSlot, h *wire.Header, only bool, now monotime.Time) {
	held, known := wire.CoarseHold(h.Hold)
	if s.times == nil || !known {
		return
	}
	at := s.times.rolledAt
	switch {
	case only:
		at = s.sent(h.PktNum)
	case h.PktNum != s.times.rolled || !wire.SameTry(h.Hold, s.try-1):
		return
	}
	took := now.Sub(at)
	if took < held {
		return
	}
	rto := c.rtt.rto
	c.rtt.sample(max(1, took-held))
	c.rtt.rto = max(rto, c.rtt.rto)
}

// receivedTo notes that all packets before k have their answers. It reports true if some of them
// were not sent again since the last rollback: the peer has kept them.
func (c *Client) receivedTo(s *clientSlot, k uint32) (jumps bool) {
	if jumps = k > s.numTx; jumps {
		c.credits += int32(s.numTx - s.numRx)
		s.numTx = k
	} else {
		c.credits += int32(k - s.numRx)
	}
	s.numRx = k
	switch {
	case !s.probes || k < s.times.stop:
	case jumps:
		s.probe(max(1, s.times.ahead.hole(k)))
	default:
		s.probe(2 * s.times.span) // the peer has not kept what is behind
	}
	return jumps
}

// onGap takes the server's word that it misses a packet, though it has seen a later one. All
// request packets before the missing one are there. The body lists the holes, if the server keeps
// what is behind them: then only those in the first one are sent again.
func (c *Client) onGap(
	i uint8, h *wire.Header, body []byte, now monotime.Time, out *Out,
) {
	s := &c.slots[i]
	if !wire.SameTry(h.Hold, s.try) {
		c.stats.DropPast++ // it answers packets sent before the last rollback
		return
	}
	if m := h.PktNum; m < s.numReq && m > s.numRx {
		c.receivedTo(s, m)
		s.retries, s.fast = 0, 0
	}
	hole := uint32(0)
	if list, err := wire.ParseHoles(body); err == nil {
		if first, n := list.At(0); first == s.numRx {
			hole = n
		}
	}
	c.lost(i, h.Hold, hole, now, out)
}

// maxFast bounds the rollbacks of a slot on evidence without progress: after that
// only the timeout helps.
const maxFast = 3

// lost rolls slot i back at once, since a packet was answered out of order that was sent in this
// try. If the peer keeps what is behind a hole of so many packets, not 0, only those are sent until
// there is an answer.
func (c *Client) lost(i uint8, try uint16, hole uint32, now monotime.Time, out *Out) {
	s := &c.slots[i]
	if !wire.SameTry(try, s.try) || s.fast == maxFast {
		return
	}
	s.fast++
	c.shrink(s, hole, false, now)
	if s.probes = hole > 0 && s.highTx != wire.MaxPackets && s.times != nil; s.probes {
		s.probe(hole)
	}
	c.stats.FastRollbacks++
	since, alone := s.progress, s.numTx-s.numRx == 1
	c.rollback(i, now, out)
	if alone {
		s.progress = since // what goes again early does not put the timeout off
	}
}

// finish ends the request in slot s, number i, and starts waiting ones.
func (c *Client) finish(s *clientSlot, i uint8, now monotime.Time, out *Out) {
	c.credits += int32(s.numTx - s.numRx)
	if c.queued(s, out) {
		out.Flush()
	}
	c.release(s, i)
	if c.stalled > 0 {
		c.pump(now, out)
	}
	if c.queue.n > 0 {
		c.startQueued(now, out)
	}
}

// queued reports whether packets of a slot's request may be in queues. Only a peer that answers
// what it cannot have got, or the owner who cancels, ends a request whose packets are still queued.
// The answer may be to the first copy of a packet, while the transport has the second.
func (c *Client) queued(s *clientSlot, out *Out) bool {
	return s.txGen == out.gen || out.lends && s.againGen > out.clean
}

// Scan rolls back requests whose answers are overdue, since they have waited for the timeout
// (go-back-N): credits come back, packets from the first unanswered on are sent again. Then it does
// what Look does. It returns the largest number of timeouts without progress of any slot, so that
// the owner can ask whether the peer lives.
func (c *Client) Scan(now monotime.Time, out *Out) (retries uint8) {
	if c.busy == 0 && c.held == 0 || now < c.rests {
		return 0
	}
	for i := range c.slots {
		s := &c.slots[i]
		if !s.busy || s.numTx == s.numRx {
			retries = max(retries, c.scanQuiet(uint8(i), now, out))
		} else if now.Sub(c.waitsSince(s)) >= c.rtt.timeout(s.retries) &&
			now.Sub(s.sentLast()) >= c.rtt.early(oneShare) && s.expects() && c.timedOut(uint8(i), now, out) {
			retries = max(retries, s.retries)
		}
	}
	c.Look(now, out)
	c.rests = c.restsUntil()
	return retries
}

// waitsSince returns since when a slot has waited for an answer, for its timeout. With a window
// below the first one it may have waited for credits before.
func (c *Client) waitsSince(s *clientSlot) monotime.Time {
	if c.path != nil && c.path.low {
		return max(s.progress, s.sent(s.numRx))
	}
	return s.progress
}

// Look rolls back requests that have waited for less than the timeout, on evidence: a packet that
// was sent later has been answered. Of those sent last it has the last one go again, if nothing is
// answered at all: all that was sent together may be lost together, and an answer to the last shows
// it (RFC 8985, section 7). It is cheap: the owner calls it often.
func (c *Client) Look(now monotime.Time, out *Out) {
	if c.busy == 0 || now < c.rests {
		return
	}
	var last *clientSlot
	var lastAt monotime.Time
	least := c.rtt.early(oneShare)
	for i := range c.slots {
		s := &c.slots[i]
		if !s.busy || s.numTx == s.numRx {
			continue
		}
		at := s.sentLast()
		if now.Sub(at) >= least {
			c.ifOvertaken(uint8(i), now, out)
			at = s.sentLast()
		}
		if last == nil || at > lastAt {
			last, lastAt = s, at
		}
	}
	if now.Sub(lastAt) < least {
		return
	}
	if last != nil && last.retries == 0 && last.numTx-last.numRx == 1 && last.txGen != out.gen &&
		last.expects() &&
		now.Sub(last.sentLast())>>last.fast >= c.rtt.early(tailShare) {
		c.lost(uint8(last.reqNum&uint64(len(c.slots)-1)), last.try, last.again(), now, out)
	}
}

// QuietUntil returns a time before which Scan does nothing if no packet comes. It may be too early,
// or past.
func (c *Client) QuietUntil() monotime.Time {
	until := monotime.Never
	if c.floor.unsure {
		until = c.floor.at
	}
	early := c.rtt.early(oneShare)
	for i := range c.slots {
		s := &c.slots[i]
		switch {
		case s.busy && s.numTx > s.numRx:
			until = min(until, s.sentLast().Add(early),
				c.waitsSince(s).Add(c.rtt.timeout(s.retries)))
		case s.busy && s.waits:
			until = min(until, s.progress.Add(c.queryAfter))
		case !s.busy && s.held():
			return 0
		}
	}
	return until
}

// timedOut counts a timeout of slot i and rolls it back. It returns false if the session waits for
// another word instead; see suspect.
func (c *Client) timedOut(i uint8, now monotime.Time, out *Out) bool {
	s := &c.slots[i]
	since := s.progress
	if s.retries == 0 && c.backoff.firsts.another(since, now) {
		c.backoff.rto = c.rtt.rto
	}
	if s.retries < 255 {
		s.retries++
	}
	if (s.retries >= suspectAfter || s.cut < c.cut) && !c.suspect(i, now, out) {
		return false
	}
	c.stats.Rollbacks++
	c.shrink(s, 1, true, now)
	s.probes = false
	// One timeout may be a peer that does not get to run, and one without the response
	// alone may be a slow handler.
	if s.retries >= 2 && s.numRx != s.numReq-1 && c.backoff.told.another(since, now) {
		c.slowDown(now)
	}
	c.rollback(i, now, out)
	return true
}

// ifOvertaken rolls slot i back if a packet that was sent later has been answered and this one has
// waited too long, twice as long each time. Its handler may be slow, too: then a few packets are
// wasted.
//
// A slot that probes has sent nothing behind what it waits for. So that is sent again soon, a few
// times.
func (c *Client) ifOvertaken(i uint8, now monotime.Time, out *Out) {
	s := &c.slots[i]
	if !s.expects() {
		return
	}
	sent := s.sentLast()
	waited, share := now.Sub(sent)>>s.fast, time.Duration(oneShare)
	if s.numTx-s.numRx > 1 {
		share = manyShare
	}
	if waited >= c.rtt.early(share) && *c.answered() > sent {
		c.lost(i, s.try, s.again(), now, out)
	} else if s.recovers() && waited >= c.rtt.early(tailShare) {
		c.lost(i, s.try, 1, now, out)
	}
}

// again returns the hole that a slot which probes has at least, for lost; else 0.
func (s *clientSlot) again() uint32 {
	if s.probes {
		return 1
	}
	return 0
}

// answered returns where it is kept when the latest packet was sent that has an answer: for all
// sessions whose packets travel together, since the path loses and keeps them together.
func (c *Client) answered() *monotime.Time {
	if c.link != nil {
		return &c.link.answered
	}
	return &c.latest
}

// answeredAgain notes that an answer came to one of several copies of a packet; at is when the last
// copy was sent. If a round trip since then can be over, all that the session sent before that copy
// and has no answer is lost. Answers to packets that were sent again for that reason say nothing
// more: else one that was late, not lost, would have all sent again, round after round.
func (c *Client) answeredAgain(at, now monotime.Time) {
	if at > c.latest && now.Sub(at) >= max(c.floor.min, c.rtt.srtt/2) {
		c.latest, c.overtaken = at, true
	}
}

// rollbackOvertaken rolls back what such an answer has shown to be lost. All of that has waited
// longer than the packet whose copy was answered.
func (c *Client) rollbackOvertaken(now monotime.Time, out *Out) {
	c.overtaken = false
	for i := range c.slots {
		s := &c.slots[i]
		if s.busy && s.expects() && c.latest > s.sentLast() {
			s.hinted = true
			c.lost(uint8(i), s.try, s.again(), now, out)
		}
	}
}

// rollback makes slot i send again from its first unanswered packet on.
func (c *Client) rollback(i uint8, now monotime.Time, out *Out) {
	s := &c.slots[i]
	c.credits += int32(s.numTx - s.numRx)
	s.highTx = max(s.highTx, s.numTx)
	s.numTx = s.numRx
	c.clearQuiet(s)
	s.waits, c.rests = false, 0
	if invariants.Enabled && s.recovers() {
		panic("session: a slot with nothing under way waits for an answer")
	}
	if s.times != nil {
		s.times.rolled, s.times.rolledAt = s.numRx, s.sent(s.numRx)
	}
	s.try++
	s.progress = now
	c.kick(i, now, out)
}

// rtoEstimator keeps smoothed RTT and its variation and derives the
// retransmission timeout as RFC 6298 does (alpha 1/8, beta 1/4, K 4).
type rtoEstimator struct {
	srtt   time.Duration // 0 before the first sample
	rttvar time.Duration
	rto    time.Duration // within [min, max]
	hold   uint32        // how long handlers may take, ns
	late   uint16        // how long answers of a late host may take, in lateUnit; 0 if it is in time
	hasty  uint8         // how often early doubles
	calm   uint8         // samples since hasty changed
	min    time.Duration
	max    time.Duration

	base   time.Duration // least sample of this period of baseFor and the last; 0 before the first
	recent time.Duration // least sample of this period
	since  monotime.Time // when this period began
}

// baseFor is how long the path must have been longer before the session believes it. A shorter time
// would take a standing queue for the path; LEDBAT (RFC 6817, section 4.2) remembers 10 minutes as
// well, two periods.
const baseFor = 300 * time.Second

func newRTOEstimator(t *Timing) rtoEstimator {
	return rtoEstimator{rto: t.RTOInitial, hold: uint32(min(t.RTOMin/32, maxSample)),
		min: t.RTOMin, max: t.RTOMax}
}

// OpenedIn says, before Open, how long the proof of the handshake took where repetitions make its
// round trip unsure: timeouts are no shorter until there is a sample (RFC 6298, section 5.7).
func (c *Client) OpenedIn(d time.Duration) { c.rtt.rto = min(max(c.rtt.rto, d), c.rtt.slowest()) }

// maxSample bounds a sample: what took longer was not the path. The process was stopped, or the
// machine suspended, and what waits for a few round trips would wait for as long again.
const maxSample = time.Second

// sample takes one round-trip time.
func (e *rtoEstimator) sample(rtt time.Duration) {
	if rtt <= 0 {
		return
	}
	rtt = min(rtt, maxSample)
	if e.hasty > 0 {
		e.calmDown()
	}
	if rtt < e.recent || e.recent == 0 {
		e.recent = rtt
		if rtt < e.base || e.base == 0 {
			e.base = rtt
		}
	}
	if e.srtt == 0 {
		e.srtt = rtt
		e.rttvar = rtt / 2
	} else {
		diff := rtt - e.srtt
		e.srtt += diff >> 3
		if diff < 0 {
			diff = -diff
		}
		e.rttvar += (diff - e.rttvar) >> 2
	}
	if e.late > 0 {
		e.late -= 1 + e.late/lateFor
	}
	e.rto = e.fitting()
}

// fitting returns the timeout without backoff that fits the samples.
func (e *rtoEstimator) fitting() time.Duration {
	return min(max(e.srtt+4*e.rttvar+e.lateness(), e.min), e.slowest())
}

const (
	lateUnit = 16 * time.Microsecond
	// lateFor is how many samples it takes, about, until a host counts as late no more that was once.
	lateFor = 256
)

// lateBy takes how long an answer took whose host says that it kept the packet for longer than it
// can say. That is no sample of the path, but timeouts must not be shorter: else all packets that
// such a host meets late are sent again, and no answer to them is a sample (Karn). What the samples
// show already is not added whole: a long queue is not made longer by the wait for it.
func (e *rtoEstimator) lateBy(took time.Duration) {
	took = max(0, min(took, maxSample))
	beyond := max(took-e.srtt, took*3/4)
	e.late = max(e.late, 1+uint16(beyond/lateUnit))
	e.rto = max(e.rto, e.fitting())
}

// lateness returns how long answers of a late host may take.
func (e *rtoEstimator) lateness() time.Duration { return time.Duration(e.late) * lateUnit }

// baseAt returns the least round trip of the last while.
func (e *rtoEstimator) baseAt(now monotime.Time) time.Duration {
	if now.Sub(e.since) > baseFor {
		if e.recent != 0 {
			e.base = e.recent
		}
		e.recent, e.since = 0, now
	}
	return e.base
}

// timeout returns the timeout after the given number of retries: it doubles with each, up to the
// maximum, unless the path is known to take longer.
func (e *rtoEstimator) timeout(retries uint8) time.Duration {
	return backedOff(e.rto, retries, max(e.max, e.rto))
}

// slowest returns the timeout of the slowest paths: those with a long queue take longer than what a
// repeat waits for at most where nothing is known.
func (e *rtoEstimator) slowest() time.Duration { return slowFactor * e.max }

// slowFactor is how much longer than the largest timeout that of a slow path may be.
const slowFactor = 4

// backedOff returns a timeout that has doubled so often, up to a maximum.
func backedOff(d time.Duration, times uint8, most time.Duration) time.Duration {
	if shift := min(times, 62); d <= most>>shift {
		return d << shift
	}
	return most
}

// handled takes how long a handler held a request. A longer one counts at once, shorter ones by a
// 32nd each. At first nothing is known, and the hold is a 32nd of the least timeout.
func (e *rtoEstimator) handled(held time.Duration) {
	if h := uint32(held); h > e.hold {
		e.hold = h
	} else {
		e.hold -= (e.hold - h) / 32
	}
}

// Shares of the least timeout that early timeouts have at least: of one packet that a later one has
// overtaken, of the last one sent, and of several packets, since all of them are sent again.
const (
	oneShare  = 64
	tailShare = 16
	manyShare = 4
)

// early returns the timeout for packets that a later one has overtaken, and for the last one sent:
// twice what a round trip and its handler may take, and no less than a share of the least timeout.
// It doubles when an answer comes to what it sent again, since that may not have been lost but
// late, and halves after calmAfter samples: a path on which one packet in some tens is late costs
// few repeats.
func (e *rtoEstimator) early(share time.Duration) time.Duration {
	timeout := max(2*(e.srtt+4*e.rttvar+max(time.Duration(e.hold), e.lateness())), e.min/share)
	if e.srtt == 0 || timeout > e.rto>>e.hasty {
		return e.rto
	}
	return timeout << e.hasty
}

// calmAfter is how many round trips without doubt count as much as one with it.
const calmAfter = 64

// calmDown counts a sample while the early timeout is longer than it need be.
//
//go:noinline
func (e *rtoEstimator) calmDown() {
	if e.calm++; e.calm == calmAfter {
		e.hasty, e.calm = e.hasty-1, 0
	}
}

// backoff remembers the timeouts of a session. The loss of one datagram can make many requests time
// out, each of which then gets its answer. That is one loss, and counts once.
type backoff struct {
	firsts lossClock     // first timeouts of requests
	rto    time.Duration // the timeout at the last of these losses
	told   lossClock     // timeouts that congestion control learned of
	hasty  lossClock     // answers to what was sent again early
}

// lossClock holds when the last loss was noticed.
type lossClock monotime.Time

// another reports whether a timeout at now shows another loss, of something that has waited since a
// time. What waited already when the last loss was noticed belongs to that one.
func (l *lossClock) another(since, now monotime.Time) bool {
	if since < monotime.Time(*l) {
		return false
	}
	*l = lossClock(now)
	return true
}

// keep keeps the timeouts that the given numbers of retries have reached, until the next sample. It
// is for an answer, now, to what was sent again at a time. Such an answer cannot be a sample, and
// without one a path that has become slow would cost as many retries with each packet (RFC 6298,
// section 5.7).
func (c *Client) keep(retries, fast uint8, sent, now monotime.Time) {
	if retries > 0 {
		c.rtt.rto = max(c.rtt.rto, backedOff(c.backoff.rto, retries, c.rtt.slowest()))
	}
	if fast > 0 && c.backoff.hasty.another(sent, now) {
		c.rtt.hasty, c.rtt.calm = min(c.rtt.hasty+fast, maxHasty), 0
	}
}

// maxHasty doublings of the early timeout are more than the usual timeout.
const maxHasty = 16

// SRTT returns the smoothed round-trip time, or 0 before the first sample.
func (c *Client) SRTT() time.Duration { return c.rtt.srtt }

// RoundTrips says what the session knows of its path.
type RoundTrips struct {
	Smoothed time.Duration // 0 before the first sample, as the others
	Least    time.Duration // of the last minutes
	Timeout  time.Duration // for retransmission, without backoff
}

// RoundTrips returns the round-trip times of the session, without the server's hold.
func (c *Client) RoundTrips() RoundTrips {
	return RoundTrips{c.rtt.srtt, c.rtt.base, c.rtt.rto}
}

// Owed returns since when the peer has owed an answer to the oldest packet that is outstanding, and
// the retransmission timeout without backoff. Ok is false if the peer owes none: requests that wait
// there have been heard of, and those that no packet has left of are this side's. It looks at all
// slots, so it is for sessions with timeouts.
func (c *Client) Owed() (since monotime.Time, rto time.Duration, ok bool) {
	since = monotime.Never
	for i := range c.slots {
		s := &c.slots[i]
		if g := s.gaveUp; !s.busy && s.held() && !g.runs {
			since, ok = min(since, g.since), true // the answer to its CANCEL
		}
		if !s.busy || s.waits || max(s.numTx, s.highTx) <= s.numRx {
			continue
		}
		from := s.progress // of the last timeout; each of those before took its time
		for n := range s.retries {
			from = from.Add(-c.rtt.timeout(n))
		}
		since, ok = min(since, from), true
	}
	return since, c.rtt.timeout(0), ok
}

// unmeasured stands for twice the round trip that no sample has measured yet: the initial timeout
// of RFC 6298.
const unmeasured = time.Second

// Patience returns how long a peer that lives may be silent on this path at most, if one packet of
// some gets through: twice what a round trip took so far, with its variation.
func (c *Client) Patience() time.Duration {
	switch r := &c.rtt; {
	case r.srtt == 0:
		return unmeasured
	case r.rto > r.min: // it knows more than the samples, see keep
		return 2 * r.rto
	default:
		return 2 * (r.srtt + 4*r.rttvar)
	}
}

// LastHeard returns when a packet of the peer has arrived last.
func (w *Watch) LastHeard() monotime.Time { return w.lastRx }
