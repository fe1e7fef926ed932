package session

import (
	"math"
	"time"

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
	wary   uint8         // after a loss: rounds without growth that are left, and 1 for small steps
	rounds uint8         // that count for rate
	rate   float64       // largest of these, packets per ns
	former float64       // largest of the rateRounds before them
	cutAt  monotime.Time // when a loss was noticed last

	// The least time from a packet to its answer, in this period of baseFor and the one before: what
	// hosts say that they held is in it. If that were taken off, one host that says too much would
	// have the path look shorter than it is, and the window fall.
	least, formerly time.Duration
	since           monotime.Time // when the period began
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
	// windowRest is for how long the path is known that nothing was asked of.
	windowRest = time.Second
)

// SetWindow says how the session uses the credits that it will agree on, before Open: at first so
// many, and then as many as the path fills, where hosts may add a time to round trips that is no
// queue of the path. 0 at first means all of them, always.
func (c *Client) SetWindow(first int, hosts time.Duration) {
	c.first, c.hosts = uint16(first), uint32(min(hosts, math.MaxUint32))
}

// openWindow begins with the credits that were agreed on.
func (c *Client) openWindow() {
	if c.first == 0 || int(c.first) > c.Params.Credits {
		c.first = uint16(c.Params.Credits)
	}
	c.window, c.credits = c.first, int(c.first)
}

// Window returns how many packets the session may have in flight now.
func (c *Client) Window() int { return int(c.window) }

// lack notes that packets wait for credits.
func (c *Client) lack() {
	if int(c.first) == c.Params.Credits {
		return
	}
	if c.path == nil {
		c.path = &pathEstimate{grows: true}
	}
	c.path.short = true
}

// resize sets the window. Packets beyond a smaller one stay in flight: until enough answers have
// come the session has less than no credit.
func (c *Client) resize(size int) {
	size = max(int(c.first), min(size, c.Params.Credits))
	c.credits += size - int(c.window)
	c.window = uint16(size)
}

// follow counts n packets that an answer, now, answers, and ends the round if it is over.
func (c *Client) follow(n uint32, now monotime.Time) {
	p := c.path
	if p == nil {
		return
	}
	p.answered += int(n)
	p.takes(now.Sub(c.sampled), now)
	if c.sampled >= p.began && now > p.began {
		c.endRound(now)
	}
}

// endRound ends a round, and follows what it has shown. A round counts if it lacked credits, and if
// the packet that ends it left soon after the round began: else the session was at rest.
func (c *Client) endRound(now monotime.Time) {
	p := c.path
	took, base := now.Sub(p.began), p.shortest()
	counts := p.short && base > 0 && c.sampled.Sub(p.began) < took/4
	answered := p.answered
	p.began, p.answered, p.short = now, 0, false
	switch {
	case took > windowRest:
		c.forgetPath()
	case counts:
		c.learnRate(answered, took, base+base/queueShare+time.Duration(c.hosts))
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
	want := int(max(p.rate, p.former) * float64(fill))
	if p.wary > 1 {
		p.wary--
		want = min(want, size)
	} else if p.wary == 1 {
		want = min(want, size+int(c.stride))
	}
	c.resize(want)
}

// forgetPath makes the window what it was at first.
func (c *Client) forgetPath() {
	p := c.path
	*p = pathEstimate{began: p.began, grows: true,
		least: p.least, formerly: p.formerly, since: p.since}
	c.resize(0)
}

// rested forgets what a session with nothing under way has learned of its path too long ago.
func (c *Client) rested(now monotime.Time) {
	if c.window > c.first && now.Sub(c.path.began) > windowRest {
		c.forgetPath()
	}
}

// shrink takes the loss of the first packet without an answer in a slot: once for all packets that
// were sent before the session has taken notice.
func (c *Client) shrink(s *clientSlot, now monotime.Time) {
	if c.path == nil || s.numRx > 0 && s.times == nil || s.sent(s.numRx) < c.path.cutAt {
		return
	}
	c.path.cutAt, c.path.grows, c.path.wary = now, false, waryRounds
	c.resize(int(float64(c.window) * kept))
}
