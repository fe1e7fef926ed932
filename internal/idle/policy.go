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
	if now >= p.switchAt && !p.cfg.Locked {
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
