package session

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/cc/cubic"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// pathEstimate holds what a session has measured of its path. A session has one once it lacked
// credits; see the package comment.
//
// A round is the time from an answer to the first answer to a packet that was sent after it. In a
// round that lacked credits a window's worth of packets was answered, and the round's length is
// what their way took, queues and hosts included.
type pathEstimate struct {
	began    monotime.Time // when the round began
	answered int           // packets answered in it
	short    bool          // credits were missing in it

	grows  bool          // no queue was met yet, and no loss
	low    bool          // a queue overflowed: the window may be smaller than at first
	wary   uint8         // after a loss: rounds without growth that are left, and 1 for small steps
	rounds uint8         // that count for rate
	rate   float64       // largest of these, packets per ns
	former float64       // largest of the rateRounds before them
	cutAt  monotime.Time // when a loss was noticed last

	passed, lost uint32 // packets; both are halved after lossyFor

	// The least time from a packet to its answer, in this period of baseFor and the one before: what
	// hosts say that they held is in it. If that were taken off, one host that says too much would
	// have the path look shorter than it is, and the window fall.
	least, formerly time.Duration
	since           monotime.Time // when the period began

	cubic *cubic.Window // of a session that follows losses alone, else nil; see losses.go
}

// takes notes how long an answer took that came now.
func (p *pathEstimate) takes(took time.Duration, now monotime.Time) {
	if p.least == 0 || now.Sub(p.since) >= baseFor {
		p.formerly, p.least, p.since = p.least, took, now
	}
	p.least = min(p.least, took)
}

// shortest returns the least time from a packet to its answer, 0 if none is known.
func (p *pathEstimate) shortest() time.Duration {
	if p.formerly > 0 {
		return min(p.formerly, p.least)
	}
	return p.least
}

const (
	// rateRounds is how long a rate is remembered: so many rounds, or twice as many.
	rateRounds = 8
	// queueShare is the part of the least round trip that a standing queue may last, beside the time
	// of hosts: one part of so many.
	queueShare = 16
	// waryRounds is for how many rounds a window does not grow after a loss.
	waryRounds = 32
	// kept is the share of a window that a loss leaves, and of the known rates that a long queue
	// leaves (CUBIC, RFC 9438, section 4.6).
	kept = 0.7
	// lowQueue and lowExtra are the queue that a session with a window below the first one keeps: what
	// passes in a time, and packets.
	lowQueue = 2 * time.Millisecond
	lowExtra = 1
	// firstFlight is how many packets a message has in flight on a path that has not answered parts of
	// messages yet: those that one CR may answer, about as many as TCP has (RFC 6928). Each answer
	// adds as many as it answers.
	firstFlight = maxStride
	// Wires and radio lose few packets of a hundred: one for lossyShare that pass, and at least
	// lossyLeast of the last hundreds, are lost in full queues.
	lossyShare = 4
	lossyLeast = 16
	lossyFor   = 256
	// windowRest is for how long the path is known that nothing was asked of.
	windowRest = time.Second
)

// SetWindow says how the session uses the credits that it will agree on, before Open: at first so
// many, and then as many as the path fills, where hosts may add a time to round trips that is no
// queue of the path. 0 at first means all of them, always.
func (c *Client) SetWindow(first int, hosts time.Duration) {
	c.first, c.hosts = uint16(first), uint32(min(hosts, math.MaxUint32))
}

// SetLeastWindow says, before Open, how many packets the window holds at least, be the path as slow
// and as lossy as it may. Default 1.
func (c *Client) SetLeastWindow(least int) {
	c.pace.least = uint8(min(max(least, 1), math.MaxUint8) - 1)
}

// openWindow begins with the credits that were agreed on.
func (c *Client) openWindow() {
	c.opening, c.window = math.MaxUint16, uint16(c.Params.Credits)
	if c.pace.losses {
		c.slowStart()
		return
	}
	if c.follows() {
		c.first = min(c.first, c.window)
		c.opening, c.window = firstFlight, c.first
	}
	c.credits = int32(c.window)
}

// follows reports whether the window follows the path.
func (c *Client) follows() bool { return c.first > 0 }

// Window returns how many packets the session may have in flight now.
func (c *Client) Window() int { return int(c.window) }

// newPath returns what is known of a path at first: how long the handshake took at least.
func (c *Client) newPath(grows bool, now monotime.Time) *pathEstimate {
	return &pathEstimate{began: now, grows: grows, least: c.floor.min}
}

// lack notes that packets wait for credits.
func (c *Client) lack() {
	if !c.follows() {
		return
	}
	if c.path == nil {
		c.path = c.newPath(true, 0)
	}
	c.path.short = true
}

// resize sets the window. Packets beyond a smaller one stay in flight: until enough answers have
// come the session has less than no credit. With a window below the first one each packet asks for
// an answer: else a slot may wait for credits while nothing of it is on the way that anyone
// answers, and times out. One of that kind must find room beside those that asked for none before.
func (c *Client) resize(size int) {
	least := int(c.first)
	if c.path.low {
		least = max(int(c.quiet), int(c.pace.least)) + 1
	}
	size = max(least, min(size, c.Params.Credits))
	c.credits += int32(size) - int32(c.window)
	c.window, c.stride = uint16(size), 1
	if c.path.low = size < int(c.first); !c.path.low {
		c.stride = uint8(c.Params.stride())
	}
}

// follow counts n packets that an answer, now, answers, and ends the round if it is over.
func (c *Client) follow(n uint32, now monotime.Time) {
	c.opening = uint16(min(uint32(c.opening)+n, math.MaxUint16))
	if c.pace.losses {
		c.noLoss(n, now)
		return
	}
	if c.path == nil || !c.path.low {
		c.ifSlow(now)
	}
	p := c.path
	if p == nil {
		return
	}
	p.answered += int(n)
	if p.passed += n; p.passed >= lossyFor {
		p.passed, p.lost = p.passed/2, p.lost/2
	}
	p.takes(now.Sub(c.sampled), now)
	if c.sampled >= p.began && now > p.began {
		c.endRound(now)
	}
}

// ifSlow has the window follow the path below the first one if round trips show a queue that takes
// long. Then what is in flight is too much already.
func (c *Client) ifSlow(now monotime.Time) {
	if !c.follows() || c.rtt.srtt <= c.fill()+c.mayQueue() {
		return
	}
	if c.path == nil {
		c.path = c.newPath(false, now)
	}
	c.path.low, c.path.grows = true, false
	c.resize(min(int(c.window), int(c.window)-int(c.credits)))
}

// mayQueue returns how long the queue may be of a session whose window is below the first one.
// Where round trips vary by themselves they are no shorter for a smaller window.
func (c *Client) mayQueue() time.Duration { return lowQueue + c.rtt.rttvar }

// endRound ends a round, and follows what it has shown. A round counts if it lacked credits, and if
// the packet that ends it left soon after the round began: else the session was at rest.
func (c *Client) endRound(now monotime.Time) {
	p := c.path
	took := now.Sub(p.began)
	full := p.short || p.low && took > c.fill()+c.mayQueue()
	counts := full && p.shortest() > 0 && c.sampled.Sub(p.began) < took/4
	answered := p.answered
	p.began, p.answered, p.short = now, 0, false
	switch {
	case took > windowRest && !p.low: // else a slow one may take as long
		c.forgetPath()
	case counts:
		c.learnRate(answered, took, c.fill())
	}
}

// learnRate takes the number of packets that a round has answered, and its time. A round that fills
// the path without a queue takes at most the time fill.
func (c *Client) learnRate(answered int, took, fill time.Duration) {
	p, size := c.path, int(c.window)
	if p.rounds++; p.rounds == rateRounds {
		p.rounds, p.former, p.rate = 0, p.rate, 0
	}
	if took > 2*fill { // such a queue must go: the path may have become slower
		p.rate, p.former = p.rate*kept, p.former*kept
	}
	p.rate = max(p.rate, float64(answered)/float64(took))
	if p.grows && took <= fill {
		c.resize(max(size, answered+answered/2)) // they had left before the window grew last
		return
	}
	p.grows = false
	if p.low {
		c.creep(took, fill)
		return
	}
	want := int(max(p.rate, p.former) * float64(fill))
	if p.wary > 1 {
		p.wary--
		want = min(want, size)
	} else if p.wary == 1 {
		want = min(want, size+int(c.stride))
	}
	c.resize(want)
}

// creep sets a window below the first one after a round: what the path carries in the time fill and
// a short queue, and lowExtra packets. That each session keeps as many in a queue makes their
// shares equal (Brakmo, "TCP Vegas", SIGCOMM 1994). After a loss it grows by a packet per round,
// else it doubles at most, and grows by a quarter at least while there is no queue.
func (c *Client) creep(took, fill time.Duration) {
	p, size := c.path, int(c.window)
	want := int(math.Ceil(max(p.rate, p.former)*float64(fill+c.mayQueue()))) + lowExtra
	if took <= fill+c.mayQueue() {
		want = max(want, size+size/4+1)
	}
	most := 2 * size
	if p.wary > 0 {
		p.wary--
		most = size + 1
	}
	c.resize(min(want, most))
}

// forgetPath makes the window what it was at first.
func (c *Client) forgetPath() {
	p := c.path
	if c.pace.losses {
		*p.cubic = cubic.New(firstFlight)
		c.sizeTo(firstFlight)
		return
	}
	*p = pathEstimate{began: p.began, grows: true,
		least: p.least, formerly: p.formerly, since: p.since}
	c.resize(0)
}

// rested forgets what a session with nothing under way has learned of its path too long ago.
func (c *Client) rested(now monotime.Time) {
	p := c.path
	if p != nil && (c.window > c.first && now.Sub(p.began) > windowRest ||
		c.window < c.first && c.busy == 1 && now.Sub(p.began) > windowRest+2*c.rtt.rto) {
		c.forgetPath()
		c.opening = firstFlight
	}
}

// shrink takes the loss of the first n packets without an answer in a slot: once for all packets
// that were sent before the session has taken notice. The window falls below the first one where a
// queue has overflowed: if there is a long one, if more is lost than wires lose, or if nothing is
// known of the path but that nothing came back. Messages of one packet say nothing of a path that
// they have not filled.
func (c *Client) shrink(s *clientSlot, n uint32, timeout bool, now monotime.Time) {
	if !c.follows() || s.times == nil && (c.path == nil || s.numRx > 0) ||
		c.pace.losses && s.numRx == s.numReq-1 { // the handler may be slow
		return
	}
	if c.path == nil {
		c.path = c.newPath(false, now)
	}
	p, at := c.path, s.sent(s.numRx)
	silent := timeout && *c.answered() < at
	if silent {
		n = s.numTx - s.numRx
	}
	p.lost += max(n, 1)
	if at < p.cutAt {
		return
	}
	p.cutAt, p.grows = now, false
	if c.pace.losses {
		c.loss(silent, now)
		return
	}
	switch size := int(float64(c.window) * kept); {
	case !p.low && !c.overflows():
		p.wary = waryRounds
		c.resize(size)
	case silent && c.overflows():
		p.low, p.wary = true, 0
		c.resize(1)
	case c.overflows():
		p.low, p.wary = true, waryRounds
		c.resize(size)
	}
}

// overflows reports whether a loss is due to a queue that was full.
func (c *Client) overflows() bool {
	p, srtt := c.path, c.rtt.srtt
	return srtt == 0 || srtt > c.fill()+c.mayQueue() ||
		p.lost >= lossyLeast && p.lost*lossyShare > p.passed
}

// fill returns how long a round takes that fills the path without a queue.
func (c *Client) fill() time.Duration {
	base := c.rtt.base
	if c.path != nil && c.path.least > 0 {
		base = c.path.shortest()
	}
	return base + base/queueShare + time.Duration(c.hosts)
}
