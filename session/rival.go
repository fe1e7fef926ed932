package session

import (
	"time"

	"github.com/userspace-rpc/erpc/cc/cubic"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// rival is what a session knows of senders that fill the queue of its path until it overflows,
// though the session yields; see the package comment.
type rival struct {
	on     bool
	window cubic.Window // while on
	told   float64      // while on: the controller's rate, bytes per second

	// While off: the least round trip since a queue has stood, and the window at that time.
	trough time.Duration
	then   uint16

	// While on: the longest round trip since the last test, how many rounds of this test are left,
	// rounds since it, and how many of them had no queue.
	peak  time.Duration
	test  uint8
	since uint8
	empty uint8
}

const (
	// A queue stands that lasts longer than one part in standsShare of the path, and standsLeast:
	// what sessions of this library keep lasts less on long paths.
	standsShare = 8
	standsLeast = 250 * time.Microsecond
	// testRounds is how long a session yields to see whether a queue is there without it. Round trips
	// of the first rounds have met its own packets.
	testRounds = 3
	testBlind  = 2
	// A test begins after so many rounds, or when the queue has become shorter by one part in
	// fellShare.
	testEvery = 64
	fellShare = 4
	// mostEmpty rounds in a row without a queue show that nobody fills it.
	mostEmpty = 2
)

// stands returns the longest queue that does not stand.
func (c *Client) stands() time.Duration {
	return c.path.shortest()/standsShare + standsLeast + time.Duration(c.hosts)
}

// beside looks at a round whose least round trip was such, and reports whether the session follows
// losses.
func (c *Client) beside(least time.Duration, now monotime.Time) bool {
	p := c.path
	r, queue := &p.rival, least-p.shortest()
	if r.on {
		c.besideRound(least, queue)
		return r.on
	}
	switch {
	case queue <= c.stands():
		r.trough = 0
	case r.trough == 0 || least < r.trough:
		r.trough, r.then = least, c.window
	case least-r.trough > c.stands() && c.window <= r.then && c.pace.cfg != nil && c.pace.cfg.Competes:
		c.compete(now)
	}
	return r.on
}

// compete begins to follow losses, as a flow of TCP that begins.
func (c *Client) compete(now monotime.Time) {
	c.path.rival = rival{on: true, window: cubic.New(float64(c.window)), told: c.Rate()}
	c.path.grows = false
	c.setRate(c.pace.cfg.LinkRate)
}

// besideRound looks at a round of a session that follows losses.
func (c *Client) besideRound(least, queue time.Duration) {
	p := c.path
	r := &p.rival
	r.since++
	if r.empty++; queue > c.stands() {
		r.empty = 0
	}
	fell := p.shortest() + (r.peak-p.shortest())*(fellShare-1)/fellShare
	switch r.peak = max(r.peak, least); {
	case r.test > 0:
		if r.test--; r.test < testRounds-testBlind+1 && r.empty > 0 || r.empty >= mostEmpty {
			c.yield()
		} else if r.test == 0 {
			r.since, r.peak = 0, 0
			c.besideSize(int(r.window.Size))
		}
	case r.empty >= mostEmpty:
		c.yield()
	case r.since >= testEvery || least < fell:
		c.testRival()
	}
}

// testRival has the session yield for some rounds: to its part of what the path carries without a
// queue.
func (c *Client) testRival() {
	p := c.path
	r := &p.rival
	r.test, r.empty = testRounds, 0
	part := float64(p.shortest()) / float64(max(c.rtt.srtt, p.shortest()))
	c.besideSize(int(r.window.Size * part))
}

// besideSize sets the window of a session that follows losses, which may be below the first one.
func (c *Client) besideSize(size int) {
	c.path.low = true
	c.resize(size)
}

// besideAnswer grows the window for n packets that were answered.
func (c *Client) besideAnswer(n uint32, now monotime.Time) {
	r := &c.path.rival
	if r.test > 0 {
		return
	}
	r.window.Acked(float64(n), now, c.rtt.srtt)
	r.window.Size = min(r.window.Size, float64(c.Params.Credits))
	c.besideSize(int(r.window.Size))
}

// besideLoss takes a loss of a session that follows them. If there was no queue it is a wire's.
func (c *Client) besideLoss(silent bool, now monotime.Time) {
	r := &c.path.rival
	switch {
	case silent:
		r.window.Expired(now, r.window.Size)
	case c.rtt.srtt-c.path.shortest() > c.stands():
		r.window.Lost(now, r.window.Size)
	default:
		return
	}
	c.testRival()
}

// yield has the session follow delays again.
func (c *Client) yield() {
	p := c.path
	told := p.rival.told
	p.rival, p.rate, p.former, p.rounds, p.wary = rival{}, 0, 0, 0, waryRounds
	c.setRate(told)
}
