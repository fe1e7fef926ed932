package idle

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Step is the next step of a loop after a pass that found nothing.
type Step uint8

// The steps.
const (
	Poll   Step = iota // look again at once
	Yield              // let another thread of the machine have the core first
	Switch             // let another goroutine of the process have the thread first
	Sleep              // wait until something comes
)

// Mode is how patient a Policy is.
type Mode uint8

// The modes.
const (
	Adaptive Mode = iota // spin where that pays, at most for Config.SpinFor, then sleep
	Spin                 // spin unless others want the core
	Rest                 // like Adaptive, but spin only where that takes far less than a sleep
)

// Config has the settings of a Policy, which do not change.
type Config struct {
	Mode    Mode
	SpinFor time.Duration // most that Adaptive and Rest spin in one spell
	Locked  bool          // the loop has a thread of its own: never Switch
}

// State describes the loop and its process at an idle pass.
type State struct {
	// Awaiting says that answers are due: to own requests, or from handlers elsewhere. Spells
	// in which they are differ in length from the others, and are learned apart.
	Awaiting bool
	// Handlers says that goroutines of the process work for this loop.
	Handlers bool
	// Spare is the number of processors, in the sense of GOMAXPROCS, that the loops of the
	// process leave to other goroutines. It is negative if loops outnumber processors.
	Spare int64
	// Calls counts the calls that the loop has served or that have ended. Only differences matter.
	Calls uint64
}

const (
	// A loop that nobody disturbs yields after yieldFirst, and then every yieldEvery: no round trip
	// over loopback feels that, and it shows whether the core is shared.
	yieldFirst = 30 * time.Microsecond
	yieldEvery = 4 * time.Microsecond
	// Goroutines that are ready to run find a spare processor themselves. If there is none, the
	// loop gives its own away often; the runtime itself takes it every 10 ms.
	switchOften = 4 * yieldEvery
	// A Yield that takes longer than handover let another thread run. It alone takes some
	// 300 ns.
	handover = 2 * time.Microsecond
	// Rest spins where packets come within this part of the cost of a sleep.
	restShare = 4
	// Adaptive spins where they come within so many times the cost. A peer that sleeps too adds
	// its own cost to the time of a packet; with less than 2, both would sleep on.
	adaptiveTimes = 2
	// It also spins where packets come regularly, within so many times the cost. A caller that
	// waits for each answer and then does something for that long loses a tenth of its calls by a
	// sleep. A packet that comes at random tells nobody to hurry.
	regularTimes = 9
	// brief is about the time to fall asleep, apart from the wake-up.
	brief = 2 * time.Microsecond
	// forever is longer than any spell, and can be added to any time.
	forever = math.MaxInt64 / 2 * time.Nanosecond
)

// Policy decides for one loop. Init comes first.
type Policy struct {
	cfg Config

	// The spell: the idle passes since the last work.
	idling   bool
	since    monotime.Time // it began, with the last work or packet sent
	seen     monotime.Time // the last of them, or the end of a sleep after it
	calm     monotime.Time // there is nothing to decide before
	yieldAt  monotime.Time // the next Yield is due
	switchAt monotime.Time // the next Switch is due; it goes on from spell to spell
	yielded  bool          // after the last of them
	switched bool          // ... to another goroutine
	slept    bool          // in this spell
	forced   bool          // to sleep in this spell, whatever the guess
	beside   bool          // rivals, at work enough to poll
	polling  bool          // beside rivals
	guess    *guess        // for such spells

	shared  int // above 0: the last Yields let other threads run
	rivals  rivals
	load    load
	contest contest
	guesses [2]guess
}

// Init makes the Policy that of a loop of which nothing is known. It supposes a machine without
// other work, and that packets come soon unless the loop is to rest.
func (p *Policy) Init(cfg Config) {
	*p = Policy{cfg: cfg, switchAt: monotime.Never}
	p.contest.init()
	for i := range p.guesses {
		p.guesses[i].init(cfg.Mode != Rest)
	}
}

// Idling reports whether the last pass found nothing. If so, the next one that finds something
// calls Work.
func (p *Policy) Idling() bool { return p.idling }

// Polls reports whether the step after a pass that began at now and found nothing is Poll, and
// Idle need not be asked. Most are.
func (p *Policy) Polls(now monotime.Time) bool {
	if now >= p.calm {
		return false
	}
	p.seen = now
	return true
}

// Idle returns what to do after a pass that found nothing. The pass began at now, the spell at
// since, with the last work or packet sent.
//
//go:noinline
func (p *Policy) Idle(now, since monotime.Time, s State) Step {
	if p.idling {
		p.gap(now)
	} else {
		p.begin(now, since, &s)
	}
	p.seen, p.since, p.calm = now, since, 0
	if now >= p.switchAt && !p.cfg.Locked && !p.slept { // a sleep has let them run
		p.switchAt = now.Add(s.switchEvery())
		p.switched = s.Handlers
		return Switch
	}
	limit := p.patience(now, &s)
	if now.Sub(since) >= limit {
		return Sleep
	}
	if !p.polling && (p.shared > 0 || now >= p.yieldAt) {
		p.yieldAt = now.Add(yieldEvery)
		p.yielded = true
		return Yield
	}
	if p.calm = since.Add(limit); !p.polling {
		p.calm = min(p.calm, p.yieldAt)
	}
	if !p.cfg.Locked {
		p.calm = min(p.calm, p.switchAt)
	}
	return Poll
}

// begin begins a spell.
func (p *Policy) begin(now, since monotime.Time, s *State) {
	p.guess = &p.guesses[0]
	if s.Awaiting {
		p.guess = &p.guesses[1]
	}
	p.idling, p.slept, p.forced, p.yielded, p.switched = true, false, false, false, false
	p.beside, p.polling = false, false
	p.load.begin(since, s.Calls)
	p.yieldAt = now.Add(yieldFirst)
	if p.switchAt = min(p.switchAt, now.Add(s.switchEvery())); s.Handlers {
		p.switchAt = now // they may wait for this very processor, which a sleep gives away late
	}
}

// switchEvery is how often goroutines are let run.
func (s *State) switchEvery() time.Duration {
	switch {
	case s.Handlers:
		return yieldEvery
	case s.Spare == 0:
		return switchOften
	}
	return forever
}

// patience returns how long a spell may take until the loop sleeps.
func (p *Policy) patience(now monotime.Time, s *State) time.Duration {
	switch {
	case p.slept:
		return 0 // one pass after each sleep
	case p.rivals.want(now), s.Spare < 0: // Spare: another loop waits for the processor
		p.forced = true
		return p.pollBeside(now, s)
	case p.cfg.Mode == Spin:
		return forever
	case !p.guess.spin:
		return min(brief, p.cfg.SpinFor)
	}
	return p.cfg.SpinFor
}

// pollBeside returns how long the loop polls in a spell beside rivals.
func (p *Policy) pollBeside(now monotime.Time, s *State) time.Duration {
	p.beside = s.Spare >= 0 && p.cfg.Mode != Rest && !p.rivals.throttled(now) &&
		p.load.calls >= contestCalls*loadOf
	if p.polling = p.beside && p.contest.polls(); p.polling {
		return min(contestFor, p.cfg.SpinFor)
	}
	return 0
}

// gap looks at the time since the pass before.
func (p *Policy) gap(now monotime.Time) {
	gap := now.Sub(p.seen)
	if p.yielded {
		p.yielded = false
		p.shared = max(p.shared-1, 0)
		if gap >= handover {
			p.shared = min(p.shared+1+sharedStep, maxShared)
		}
	}
	if p.switched {
		p.switched = false
		if gap >= handover {
			// A handler had the processor, so that this spell costs nothing. The next one gets it in
			// the same way: to sleep would cost a wake-up for each of them.
			p.forced = true
			return
		}
	}
	if gap >= offCore {
		p.rivals.off(now, gap)
	}
}

// One Yield that lets another thread run makes sharedStep idle passes yield at once, several at
// most maxShared.
const (
	sharedStep = 2
	maxShared  = 8
)

// Slept notes a sleep that ended at now.
func (p *Policy) Slept(now monotime.Time) {
	p.slept, p.yielded = true, false
	p.seen, p.calm = now, 0
}

// Work ends the spell: the pass that began at now found something. It is to be called once, if
// Idling. Packets which that pass has sent do not shorten the spell.
//
//go:noinline
func (p *Policy) Work(now monotime.Time) {
	p.gap(now)
	p.idling, p.calm = false, 0
	if p.beside {
		p.contest.count(p.polling, !p.slept)
	}
	took := now.Sub(p.since)
	busy := p.load.end(now, took) && p.cfg.Mode == Adaptive
	if p.cfg.Mode == Spin {
		return
	}
	g, spinFor := p.guess, p.cfg.SpinFor
	price := g.price()
	cost := price
	if busy {
		cost = max(cost, busyCost)
	}
	if !p.forced {
		// The longest spell that can be worth a comparison is one asleep, where a spin would
		// have met the packet at last.
		near := took <= spinFor+maxCost
		keep := took <= p.worth(minCost) || busy && g.spin
		g.measure(took, near, near && !(g.spin && p.slept), keep)
	}
	came := took
	if p.slept && g.found > 0 {
		came -= cost // when it came, not when the loop heard of it
	}
	soon := came <= p.worth(cost) && took <= spinFor
	regular := !soon && p.cfg.Mode == Adaptive && g.regular(came, min(price*regularTimes, spinFor))
	g.count(soon, regular) // decides on the next spell
}

// worth returns how long it is worth spinning to save the cost of a sleep.
func (p *Policy) worth(cost time.Duration) time.Duration {
	if p.cfg.Mode == Rest {
		return cost / restShare
	}
	return cost * adaptiveTimes
}

// Throttled says that the system keeps the process off all cores for part of the time, since it
// has used up its quota. The rest is for work.
func (p *Policy) Throttled(now monotime.Time) { p.rivals.throttle(now) }

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

const (
	// offCore is a gap between two passes that only a thread that keeps the core explains.
	// Interrupts and threads that do little take less.
	offCore = 500 * time.Microsecond
	// Others want the core if they had it for tooMuch, not counting an eighth of the time: two
	// time slices or so. The odd thread of the system gets less.
	tooMuch = 2 * time.Millisecond
	leak    = 8
	// That is believed for minHold, and each time that it is found true again soon for twice
	// as long: to find out costs about tooMuch.
	minHold = 20 * time.Millisecond
	maxHold = time.Second
	// A quota is a setting, and lasts. To find out costs a good part of a period of 100 ms.
	minQuotaHold = 2 * time.Second
	maxQuotaHold = 2 * time.Minute
)

// rivals tracks how much other threads want a loop's core.
type rivals struct {
	lost  time.Duration // time off the core, less the part that is forgiven
	at    monotime.Time // when it was
	until monotime.Time // others are supposed to want the core
	hold  time.Duration
	quota monotime.Time // until then the process is supposed to have a quota
}

func (r *rivals) want(now monotime.Time) bool { return now < r.until }

// off notes that the loop was off the core for a gap that ends now.
//
//go:noinline
func (r *rivals) off(now monotime.Time, gap time.Duration) {
	r.lost = max(0, r.lost-now.Sub(r.at)/leak) + gap
	r.at = now
	if r.lost < tooMuch || r.want(now) {
		return
	}
	r.believe(now, minHold, maxHold)
}

// throttle notes that a quota was used up.
func (r *rivals) throttle(now monotime.Time) {
	r.believe(now, minQuotaHold, maxQuotaHold)
	r.quota = r.until
}

// throttled reports whether want is true for a quota.
func (r *rivals) throttled(now monotime.Time) bool { return now < r.quota }

// believe makes the loop sleep for twice as long as the last time, if that was not long ago.
func (r *rivals) believe(now monotime.Time, least, most time.Duration) {
	if now.Sub(r.until) > 2*r.hold {
		r.hold = 0
	}
	r.lost = 0
	r.hold = max(least, min(2*r.hold, most))
	r.until = now.Add(r.hold)
}

const (
	// A loop is busy if it does busyCalls or more from one spell to the next, and its work takes at
	// least one part in busyPart of the time that its spells take. Both on average, over loadOf
	// spells or so.
	busyCalls = 8
	busyPart  = 3
	loadOf    = 16
	// busyCost is the least cost of a sleep of a busy loop, whatever its own tries say. They compare
	// lengths of its spells. They don't see that many calls wait for its wake-up, and that a spin
	// takes a core from the very threads whose packets it awaits, when these sleep as well.
	busyCost = 25 * time.Microsecond
)

// load tracks how much a loop works.
type load struct {
	ended monotime.Time // the last spell
	work  time.Duration // between two spells, on average
	idle  time.Duration // in a spell, on average
	calls int64         // between two spells, on average, times loadOf
	count uint64        // State.Calls when the last spell began
}

// begin notes that a spell began, with the last work. All calls so far are count.
func (l *load) begin(at monotime.Time, count uint64) {
	if l.ended != 0 {
		l.work += (at.Sub(l.ended) - l.work) / loadOf
		l.calls += int64(count-l.count) - l.calls/loadOf
	}
	l.count = count
}

// end notes that a spell ended at now, and took so long. It reports whether the loop is busy.
func (l *load) end(now monotime.Time, took time.Duration) bool {
	l.ended = now
	l.idle += (took - l.idle) / loadOf
	return l.calls >= busyCalls*loadOf && busyPart*l.work >= l.idle
}

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
