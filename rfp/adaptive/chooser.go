package adaptive

import "time"

// MaxWays bounds the ways of a Chooser.
const MaxWays = 8

// How a Chooser measures.
const (
	turns     = 3    // of each way at first
	turnCalls = 16   // calls of a turn
	probed    = 8    // calls of a probe
	minWait   = 512  // calls between two probes of a way
	maxWait   = 1e6  // ... at most
	cost      = 0.01 // share of the time that probes may take
	gain      = 0.97 // a way whose calls take less than this part is better
	memory    = 1. / 64
)

// way is a Chooser's state of one way.
type way struct {
	mean float64 // of what calls took
	wait int     // calls from one probe to the next
	due  int     // calls until the next one
}

// Chooser picks the way of each call by the times of earlier ones. The zero value is of no use: see
// NewChooser.
type Chooser struct {
	ways    [MaxWays]way
	n       int
	best    int
	learned bool
	at      int // turn, while it learns
	left    int // calls of the probe that are still to begin
	trying  int // way that is probed, -1: none
	again   bool
	sum     time.Duration
	count   int // calls of the turn or probe that have ended
	rng     uint64
}

// NewChooser returns a Chooser for n ways, 1 to MaxWays. Choosers with different seeds probe at
// different times.
func NewChooser(n int, seed uint64) *Chooser {
	c := &Chooser{n: min(max(n, 1), MaxWays), trying: -1, rng: seed*2 + 1}
	return c
}

// random returns a number below n.
func (c *Chooser) random(n int) int {
	c.rng = c.rng*6364136223846793005 + 1442695040888963407
	return int(c.rng >> 33 % uint64(n))
}

// Best returns the way that most calls go.
func (c *Chooser) Best() int { return c.best }

// Mean returns what the calls of a way took, as far as they are remembered; 0: none.
func (c *Chooser) Mean(way int) time.Duration { return time.Duration(c.ways[way].mean) }

// Next returns the way of the next call. Ended must be told of its end, Refused if it goes another
// way, Dropped if it goes none.
func (c *Chooser) Next() int {
	if !c.learned {
		return c.at % c.n
	}
	if c.trying >= 0 && c.left > 0 {
		c.left--
		return c.trying
	}
	if c.trying < 0 {
		c.plan()
		if c.trying >= 0 {
			c.left--
			return c.trying
		}
	}
	return c.best
}

// plan begins a probe if one is due.
func (c *Chooser) plan() {
	for i := range c.n {
		w := &c.ways[i]
		if i == c.best {
			continue
		}
		if w.due--; w.due <= 0 && c.trying < 0 {
			c.begin(i, probed)
		}
	}
}

func (c *Chooser) begin(way, calls int) {
	c.trying, c.left, c.sum, c.count = way, calls, 0, 0
}

// Ended tells that a call ended, and what it took. Failed calls count too if their time says
// something.
func (c *Chooser) Ended(way int, took time.Duration) {
	if way < 0 || way >= c.n {
		return
	}
	w := &c.ways[way]
	switch {
	case !c.learned && way == c.at%c.n:
		c.sum += took
		if c.count++; c.count >= turnCalls {
			c.turned()
		}
	case c.learned && way == c.trying:
		c.sum += took
		c.count++
		if c.left == 0 && c.count >= probed {
			c.judge()
		}
	case c.learned && way == c.best:
		w.mean += (float64(took) - w.mean) * memory
	}
}

// Dropped takes a call back that Next has counted: it went no way at all.
func (c *Chooser) Dropped(way int) {
	if way == c.trying {
		c.left++
	}
}

// Refused tells that a way took no call, which had to go another one. It counts as a slow call, by
// what calls of the other ways take: by its own time it would grow without end.
func (c *Chooser) Refused(way int) {
	least := 0.
	for i := range c.n {
		if m := c.ways[i].mean; i != way && m > 0 && (least == 0 || m < least) {
			least = m
		}
	}
	c.Ended(way, 4*time.Duration(least)+100*time.Microsecond)
}

// turned ends a turn of learning. The first turn of each way warms it up, and is forgotten.
func (c *Chooser) turned() {
	i := c.at % c.n
	mean := float64(c.sum) / float64(c.count)
	if w := &c.ways[i]; c.at < 2*c.n {
		w.mean = mean
	} else {
		w.mean = (w.mean + mean) / 2
	}
	c.at++
	c.sum, c.count = 0, 0
	if c.at < turns*c.n && c.n > 1 {
		return
	}
	c.learned = true
	for i := range c.n {
		if c.ways[i].mean < c.ways[c.best].mean {
			c.best = i
		}
	}
	for i := range c.n {
		c.schedule(i)
	}
}

// schedule sets when a way is probed next: the further it is behind, the later. A random part keeps
// clients apart.
func (c *Chooser) schedule(i int) {
	w := &c.ways[i]
	behind := w.mean/max(c.ways[c.best].mean, 1) - 1
	w.wait = int(min(max(probed*behind/cost, minWait), maxWait))
	w.due = w.wait/2 + c.random(w.wait)
}

// judge ends a probe.
func (c *Chooser) judge() {
	i := c.trying
	w, b := &c.ways[i], &c.ways[c.best]
	w.mean = float64(c.sum) / float64(c.count)
	better := w.mean < gain*b.mean
	switch {
	case better && !c.again:
		c.again = true
		c.begin(i, 2*probed)
		return
	case better:
		old := c.best
		c.best = i
		c.schedule(old)
	default:
		c.schedule(i)
	}
	c.again, c.trying = false, -1
}
