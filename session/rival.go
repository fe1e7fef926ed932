package session

import (
	"time"

	"github.com/userspace-rpc/erpc/cc/cubic"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// rival is what a session knows of senders that fill the queue of its path until it overflows,
// though the session yields; see the package comment.
type rival struct {
	on bool // the session follows losses

	least  time.Duration // round trip of this spell
	rounds uint8         // in it

	// While off: since a queue has stood the least round trip of spells, or since that has risen the
	// longest, and the window at that time.
	turn  time.Duration
	then  uint16
	rises uint8
	risen bool

	// While on.
	window  cubic.Window
	told    float64       // the controller's rate, bytes per second
	peak    time.Duration // longest round trip since the last test
	last    time.Duration // queue of the last round of the test
	since   uint8         // rounds since a test ended
	test    uint8         // rounds that are left of a test
	tested  uint8         // rounds of it
	empty   uint8         // rounds in a row without a queue
	empties uint8         // tests in a row that found none
}

const (
	// A queue stands that lasts longer than one part in standsShare of the path, and standsLeast.
	standsShare = 8
	standsLeast = 250 * time.Microsecond
	// The least round trips of spells of so many rounds are looked at. They have risen if they are
	// longer by one part in riseShare than they were, and by a queue that stands, though the window is
	// not larger by more than one part in growsShare and a packet. Risen so often, they are a rival's.
	spell      = 8
	riseShare  = 8
	growsShare = 4
	rivalRises = 2
	// A test lasts so many rounds, and is longer while the queue falls. Round trips of the first have
	// met the session's own packets.
	testRounds = 3
	testBlind  = 2
	mostTested = 10
	// A test begins after so many rounds, or when the queue has become shorter by one part in
	// fellShare. What is left of the queue is none below one part in emptyShare.
	// The first comes early.
	testEvery  = 64
	testFirst  = 12
	fellShare  = 4
	emptyShare = 5
	// mostEmpty rounds in a row without a queue show that nobody fills it.
	mostEmpty = 2
	// mostBack bounds how often each return to losses doubles what shows that nobody fills the queue.
	mostBack = 5
)

// competes reports whether the session may follow losses.
func (c *Client) competes() bool { return c.pace.cfg != nil && c.pace.cfg.Competes }

// stands returns the longest queue that does not stand.
func (c *Client) stands() time.Duration {
	return c.path.shortest()/standsShare + standsLeast + time.Duration(c.hosts)
}

// beside looks at a round that has answered so many packets in such a round trip at least, and
// reports whether the session follows losses.
func (c *Client) beside(answered int, least time.Duration, now monotime.Time) bool {
	r := &c.path.rival
	if r.rounds == 0 || least < r.least {
		r.least = least
	}
	r.rounds++
	if r.on {
		c.followRound(answered, least)
	}
	if r.rounds == spell && c.competes() {
		r.rounds = 0
		c.afterSpell(r.least)
	}
	return r.on
}

// afterSpell looks for a queue that rises again and again though the session does not send more.
func (c *Client) afterSpell(least time.Duration) {
	r, rise := &c.path.rival, max(c.stands(), least/riseShare)
	if least-c.path.shortest() >= lowQueue {
		c.isDeep()
	}
	switch {
	case r.on:
	case least-c.path.shortest() <= c.stands():
		*r = rival{}
	case r.risen && least >= r.turn-rise/2:
		r.turn = max(r.turn, least)
	case r.risen || r.turn == 0 || least < r.turn:
		r.risen, r.turn, r.then = false, least, c.window
	case least-r.turn > rise && c.window <= r.then+r.then/growsShare+1:
		r.risen, r.turn = true, least
		if r.rises++; r.rises == rivalRises {
			c.compete()
		}
	}
}

// compete begins to follow losses, as a flow of TCP that begins.
func (c *Client) compete() {
	c.path.rival = rival{on: true, window: cubic.New(float64(c.window)), told: c.Rate(),
		since: testEvery - testFirst}
	c.path.grows = false
	c.setRate(c.pace.cfg.LinkRate)
}

// overflowed takes a loss of a session that does not follow them. A queue overflows there that is
// shorter than what the session keeps: then it has to keep less, and if that was not enough to
// follow losses. It reports whether it does.
func (c *Client) overflowed(silent bool, now monotime.Time) bool {
	p, queue := c.path, c.rtt.srtt-c.path.shortest()
	if !c.competes() || queue <= c.stands() || queue >= lowQueue || p.deep {
		return false
	}
	if !p.shallow {
		p.shallow = true
		return false
	}
	p.back = min(p.back+1, mostBack)
	c.compete()
	c.followsLoss(silent, now)
	return true
}

// isDeep notes that the queue can be longer than what the session keeps.
func (c *Client) isDeep() {
	p := c.path
	p.deep = true
	if p.shallow {
		p.shallow, p.back = false, 0
		if p.rival.on {
			c.yield()
		}
	}
}

// followRound looks at a round of a session that follows losses.
func (c *Client) followRound(answered int, least time.Duration) {
	p, base := c.path, c.path.shortest()
	r, queue, none := &p.rival, least-base, c.stands()
	if r.test > 0 {
		none = max(none, (r.peak-base)/emptyShare)
	}
	if r.empty++; queue > none {
		r.empty = 0
	}
	fell := base + (r.peak-base)*(fellShare-1)/fellShare
	r.peak = max(r.peak, least)
	r.since++
	switch {
	case r.test > 0:
		c.afterTest(queue)
	case r.empty >= mostEmpty<<p.back:
		c.yield()
	case r.since >= testEvery || least < fell:
		c.yieldTo(answered)
	}
}

// afterTest looks at a round of a test. Others that test at the same time make the queue fall, so
// it goes on.
func (c *Client) afterTest(queue time.Duration) {
	r := &c.path.rival
	if r.tested++; queue < r.last*(fellShare-1)/fellShare && r.tested < mostTested {
		r.test = max(r.test, testBlind)
	}
	r.last = queue
	r.test--
	switch none := r.empty >= mostEmpty || r.empty > 0 && r.test <= testRounds-testBlind; {
	case none && r.empties+1 >= 1<<c.path.back:
		c.yield()
	case none || r.test == 0:
		if r.empties++; !none {
			r.empties = 0
		}
		r.since, r.peak, r.test, r.empty = 0, 0, 0, 0
		c.sizeTo(r.window.Size)
	}
}

// yieldTo begins a test: of so many packets that were under way the session keeps those that its
// path carries without a queue.
func (c *Client) yieldTo(flight int) {
	p := c.path
	r := &p.rival
	r.test, r.tested, r.empty, r.last = testRounds, 0, 0, 0
	part := float64(p.shortest()) / float64(max(c.rtt.srtt, p.shortest()))
	c.sizeTo(min(r.window.Size, float64(max(flight, 1))) * part)
}

// sizeTo sets the window of a session that follows losses, which may be below the first one.
func (c *Client) sizeTo(size float64) {
	c.path.low = true
	c.resize(int(size))
}

// followsAnswer grows the window for n packets that were answered, if it is in use.
func (c *Client) followsAnswer(n uint32, now monotime.Time) {
	r, flight := &c.path.rival, float64(c.window)-float64(c.credits)
	if r.test > 0 || 2*(flight+float64(n)) < r.window.Size {
		return
	}
	r.window.Acked(float64(n), now, c.rtt.srtt)
	r.window.Size = min(r.window.Size, float64(c.Params.Credits))
	c.sizeTo(r.window.Size)
}

// followsLoss takes a loss of a session that follows them. If there was no queue it is a wire's.
func (c *Client) followsLoss(silent bool, now monotime.Time) {
	r, flight := &c.path.rival, int(c.window)-int(c.credits)
	switch {
	case silent:
		r.window.Expired(now, r.window.Size)
	case c.rtt.srtt-c.path.shortest() > c.stands():
		r.window.Lost(now, r.window.Size)
	default:
		return
	}
	c.yieldTo(flight)
}

// yield has the session follow delays again.
func (c *Client) yield() {
	p := c.path
	told := p.rival.told
	p.rival, p.rate, p.former, p.rounds, p.wary = rival{}, 0, 0, 0, waryRounds
	c.setRate(told)
}
