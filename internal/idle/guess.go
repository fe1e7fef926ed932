package idle

import "time"

const (
	maxScore = 8
	minScore = -4
	// A packet that comes later than the others did counts against oddCounts that do not. Nearly all
	// must not: more than 31 of 32, within the usual time and half of it. Of packets at random 88
	// to 94 of a hundred do that, the more the oftener they come.
	oddCounts = 31
	maxSure   = 2 * oddCounts
	usualOf   = 8
	// A try takes tryFor spells. A peer that spins does not give up for that many late packets. A
	// loop that sleeps spins on after a try if all its packets came soon.
	tryFor = 1 - minScore
	// The first try comes after firstTry spells. Each further one comes after twice as many as
	// the one before, up to lastTry; after half as many if it found the cost changed. A try to
	// sleep makes packets late, so a loop that spins waits twice as long: in the long run less
	// than one spell in a hundred is such a try.
	firstTry = 24
	lastTry  = 256
	// The bounds of the cost of a sleep. While it is unknown, maxCost stands for it.
	minCost = 5 * time.Microsecond
	maxCost = 100 * time.Microsecond
	// The averages are those of so many spells and tries or so.
	spellsOf = 8
	triesOf  = 4
)

// guess says whether the loop is to spin in the next spell: most of the last packets came within
// the time that is worth spinning, or those that did not came regularly, within a longer one. These
// times depend on the cost of a sleep: how much longer a spell takes if the loop sleeps at once
// than if it spins. Tries measure this: now and then the loop does the opposite for some spells.
type guess struct {
	spin  bool // in the next spell
	score int
	sure  int           // how regularly packets came that did not come soon
	even  bool          // sure reached maxSure, and has not been 0 since
	usual time.Duration // average time of such packets
	slept time.Duration // average length of the spells in which the loop slept at once
	spun  time.Duration // ... of those in which it spun
	cost  time.Duration // slept-spun as tries found it, on average
	found int           // tries that count for cost; 0: it is unknown
	ran   int           // spells since spin changed

	wait  int           // spells until the next try
	every int           // wait after that one
	tries int           // spells left of a try
	near  int           // spells of the try that count
	met   bool          // a spin met a packet in one of them, or would have
	total time.Duration // length of them
}

// init supposes that packets come soon, or not.
func (g *guess) init(soon bool) {
	*g = guess{spin: soon, wait: firstTry, every: firstTry}
	if soon {
		g.score = maxScore
	}
}

// wants reports whether the packets tell to spin.
func (g *guess) wants() bool { return g.score > 0 || g.even }

// price returns the cost of a sleep to reckon with.
func (g *guess) price() time.Duration {
	if g.found == 0 {
		return maxCost
	}
	return bound(g.cost)
}

// count notes whether a packet came soon, and if not, whether regularly.
func (g *guess) count(soon, regular bool) {
	switch {
	case soon:
		g.score = min(g.score+1, maxScore)
	case regular:
		g.score = max(g.score-1, minScore)
		g.sure = min(g.sure+1, maxSure)
	default:
		g.score = max(g.score-1, minScore)
		g.sure = max(g.sure-oddCounts, 0)
	}
	if g.sure == 0 || g.sure == maxSure {
		g.even = g.sure > 0
	}
	if spin := g.wants(); g.tries == 0 && spin != g.spin {
		g.spin = spin
		if g.ran >= firstTry {
			*g.average() = 0 // of long ago
		}
		g.ran = 0
	}
}

// regular notes when a packet came that did not come soon. It reports whether that was not
// much later than usual, and not beyond the limit. Packets that come at random do so too rarely to
// count.
func (g *guess) regular(came, limit time.Duration) bool {
	ok := came <= min(limit, g.usual+g.usual/2)
	if g.usual == 0 {
		g.usual = came
	}
	g.usual += (min(came, 2*g.usual) - g.usual) / usualOf
	return ok
}

// measure notes the length of a spell in which the loop did as the guess said, if near: a spell
// that is longer says nothing about the cost. In a spin, met says that the packet came in time. If
// keep, the loop does as before, whatever a sleep costs: a try would be wasted.
func (g *guess) measure(took time.Duration, near, met, keep bool) {
	if g.tries > 0 {
		g.try(took, near, met)
		return
	}
	g.ran++
	if !near {
		return
	}
	if avg := g.average(); *avg == 0 {
		*avg = took
	} else {
		*avg += (took - *avg) / spellsOf
	}
	if keep {
		return
	}
	if g.wait--; g.wait <= 0 {
		g.spin = !g.spin
		g.tries, g.near, g.met, g.total = tryFor, 0, false, 0
	}
}

// average returns the average of spells like the last one.
func (g *guess) average() *time.Duration {
	if g.spin {
		return &g.spun
	}
	return &g.slept
}

// try notes a spell of a try. The last one compares, unless all packets came too late for a spin.
func (g *guess) try(took time.Duration, near, met bool) {
	if near {
		g.near++
		g.total += took
	}
	g.met = g.met || met
	if g.tries--; g.tries > 0 {
		return
	}
	expected := true
	if g.met {
		*g.average() = g.total / time.Duration(g.near)
		expected = g.compare()
	}
	if expected {
		g.every = min(2*g.every, lastTry)
	} else {
		g.every = max(g.every/2, firstTry)
	}
	g.spin = g.wants()
	if g.wait = g.every; g.spin {
		g.wait *= 2
	}
}

// compare takes the cost from the averages: one is that of a try, the other one that of the spells
// before. It reports whether the cost is within half and twice the one before, if that was known.
func (g *guess) compare() bool {
	first, cost, before := g.found == 0, bound(g.slept-g.spun), g.price()
	g.found = min(g.found+1, triesOf)
	g.cost += (g.slept - g.spun - g.cost) / time.Duration(g.found)
	return first || cost <= 2*before && before <= 2*cost
}

func bound(cost time.Duration) time.Duration { return max(minCost, min(cost, maxCost)) }
