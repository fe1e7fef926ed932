package idle

import "time"

const (
	// A loop polls for contestFor beside rivals before it sleeps, without a Yield.
	contestFor = 50 * time.Microsecond
	// It does so if contestCalls calls or more end from one spell to the next, on average. A loop
	// with fewer sleeps at once: it needs less than its share of the core, so that it has the core
	// as soon as a packet comes.
	contestCalls = 2
	// A packet that such a poll met is worth a point. A poll in vain costs contestMiss: it took the
	// core from somebody, maybe from the peer.
	contestMiss  = 2
	contestMax   = 8
	contestFirst = 5 // points at first, and for a try
)

// contest says whether a loop polls beside rivals. The poll gives no core away: a Yield would cost
// it a time slice. A sleep costs little only while the loop is below its share of the core. A loop
// above it waits for the slice of a rival at each wake-up, while its peer idles and loses its own
// share of another core. To poll keeps both at work. It is in vain if the peer waits for this very
// core, and then the loop sleeps but for a try now and then.
type contest struct {
	points int
	wait   int // spells until the next try, if there are no points
	every  int // wait after that one
}

func (c *contest) init() { *c = contest{points: contestFirst, every: firstTry} }

// polls reports whether the next spell beside rivals begins with polls.
func (c *contest) polls() bool { return c.points > 0 }

// count notes the end of a spell beside rivals: whether it began with polls, and whether they met
// the packet.
func (c *contest) count(polled, met bool) {
	switch {
	case !polled:
		if c.wait--; c.wait <= 0 {
			c.points = contestFirst
		}
	case met:
		if c.points = min(c.points+1, contestMax); c.points == contestMax {
			c.every = firstTry
		}
	default:
		if c.points = max(c.points-contestMiss, 0); c.points == 0 {
			c.wait = c.every
			c.every = min(2*c.every, lastTry)
		}
	}
}
