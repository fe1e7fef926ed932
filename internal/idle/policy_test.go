package idle

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	us   = time.Microsecond
	ms   = time.Millisecond
	pass = 300 * time.Nanosecond // the time of a pass, and of a Yield that finds nobody
)

// machine runs a loop in virtual time.
type machine struct {
	p     Policy
	now   monotime.Time
	state State
	wake  time.Duration // from the packet to the loop that slept
	// off returns how long others have the core after a step, the loop's own time not counted.
	off   func(s Step) time.Duration
	steps [Sleep + 1]int // taken
	spent time.Duration  // of the loop on the core
	lost  time.Duration  // of others, while the loop had something to do
	order []Step         // of the last spell
}

func newMachine(cfg Config) *machine {
	m := &machine{now: monotime.Time(time.Hour), state: State{Awaiting: true, Spare: 1}, wake: 30 * us}
	m.off = func(Step) time.Duration { return 0 }
	m.p.Init(cfg)
	return m
}

// adaptive is the default.
var adaptive = Config{SpinFor: 200 * us}

// spell lets the loop wait for a packet that comes after d. It returns how long the loop took to
// see it.
func (m *machine) spell(d time.Duration) time.Duration {
	since := m.now
	at := since.Add(d)
	m.order = m.order[:0]
	for {
		m.now = m.now.Add(pass)
		m.spent += pass
		if m.now >= at && m.p.Idling() {
			m.p.Work(m.now)
			return m.now.Sub(at)
		}
		s := m.step(since)
		m.steps[s]++
		m.order = append(m.order, s)
		off := m.off(s)
		if s == Sleep {
			m.now = max(m.now, at).Add(m.wake)
			m.p.Slept(m.now)
			continue
		}
		if end := m.now.Add(off); end > at {
			m.lost += end.Sub(max(m.now, at))
		}
		m.now = m.now.Add(off)
	}
}

// step returns the loop's next step after a pass that found nothing.
func (m *machine) step(since monotime.Time) Step {
	if m.p.Polls(m.now) {
		return Poll
	}
	return m.p.Idle(m.now, since, m.state)
}

// spells makes n of them.
func (m *machine) spells(n int, d time.Duration) {
	for range n {
		m.spell(d)
	}
}

// taken returns what steps the machine took since the last time.
func (m *machine) taken() (steps [Sleep + 1]int) {
	steps, m.steps = m.steps, steps
	return steps
}

// TestSpinsWhereThatPays: packets that come soon are met by a loop that spins. It yields now and
// then. Tries to sleep are rare, and there are none where no cost could make them pay.
func TestSpinsWhereThatPays(t *testing.T) {
	m := newMachine(adaptive)
	m.spells(1000, 40*us)
	n := m.taken()
	if n[Sleep] == 0 || n[Sleep] > 20 {
		t.Errorf("slept %d times", n[Sleep])
	}
	if n[Yield] < 2000 || n[Yield] > 4000 { // after 30 us and 4 us more each
		t.Errorf("yielded %d times", n[Yield])
	}
	m.spells(10_000, 20*us)
	if n = m.taken(); n[Sleep] > 100 {
		t.Errorf("slept in %d of 10000 spells", n[Sleep])
	}
	if n[Yield]+n[Switch] > 10 {
		t.Errorf("yielded %d times in short spells, and switched %d times", n[Yield], n[Switch])
	}
	m.spells(10_000, 9*us)
	if n = m.taken(); n[Sleep] > 0 {
		t.Errorf("slept %d times in spells that are shorter than any sleep is worth", n[Sleep])
	}
}

// TestSleepsWhereSpinningDoesNotPay: if packets come late the loop soon sleeps at once, and if they
// come soon again it soon spins again.
func TestSleepsWhereSpinningDoesNotPay(t *testing.T) {
	late := []time.Duration{90 * us, 150 * us, 199 * us, 250 * us, 500 * us, 10 * ms, time.Second}
	for _, mode := range []Mode{Adaptive, Rest} {
		for _, wake := range []time.Duration{5 * us, 30 * us, 60 * us, 100 * us} {
			for _, d := range late {
				m := newMachine(Config{Mode: mode, SpinFor: 200 * us})
				m.wake = wake
				if d <= m.p.worth(wake) || mode == Adaptive && d <= regularTimes*wake && d < 200*us {
					continue
				}
				m.spells(100, d)
				m.spent = 0
				m.spells(1000, d)
				if each := m.spent / 1000; each > 10*us { // the tries included
					t.Errorf("mode %d, wake-ups of %v, %v: %v of the core for each packet",
						mode, wake, d, each)
				}
				// Sooner than a wake-up, which comes on top while the loop sleeps.
				soon := m.p.worth(wake) * 3 / 4
				m.spells(100, soon)
				m.taken()
				m.spells(100, soon)
				if n := m.taken(); n[Sleep] > tryFor {
					t.Errorf("mode %d, wake-ups of %v, %v: slept %d times when packets came soon again",
						mode, wake, d, n[Sleep])
				}
			}
		}
	}
}

// TestLongSpellEnds: whatever the loop thinks, it spins no longer than it may, and after a sleep
// that brought nothing it sleeps again at once.
func TestLongSpellEnds(t *testing.T) {
	m := newMachine(adaptive)
	m.spells(100, 5*us)
	since := m.now
	for m.step(since) != Sleep {
		m.now = m.now.Add(pass)
	}
	if d := m.now.Sub(since); d < 200*us || d > 201*us {
		t.Errorf("slept after %v", d)
	}
	for range 10 {
		m.p.Slept(m.now.Add(ms))
		m.now = m.now.Add(ms + pass)
		since = m.now // a timer sent something
		if s := m.step(since); s != Sleep {
			t.Errorf("step %d after a sleep", s)
		}
	}
}

// TestClasses: spells in which answers are due and the others do not mislead each other.
func TestClasses(t *testing.T) {
	m := newMachine(adaptive)
	for range 100 {
		m.state.Awaiting = true
		m.spell(8 * us)
		m.state.Awaiting = false
		m.spell(ms)
	}
	m.taken()
	for range 100 {
		m.state.Awaiting = true
		m.spell(8 * us)
		if n := m.taken(); n[Sleep] != 0 {
			t.Fatal("slept while an answer was due")
		}
		m.state.Awaiting = false
		m.spell(ms)
		if n := m.taken(); n[Sleep] != 1 || n[Poll]+n[Yield] > 10 {
			t.Fatalf("steps %v while nothing was due", n)
		}
	}
}

// TestSleepersWakeEachOther: two loops with one packet between them, which both sleep, see each
// other's wake-ups as late packets. They find out of that, even if sleeps cost little before.
func TestSleepersWakeEachOther(t *testing.T) {
	for _, wake := range []time.Duration{30 * us, 60 * us, maxCost} {
		for _, before := range []time.Duration{100 * us, ms} {
			a, b := newMachine(adaptive), newMachine(adaptive)
			a.wake, b.wake = minCost, minCost
			a.spells(2000, before)
			b.spells(2000, before)
			a.wake, b.wake = wake, wake
			const flight = 3 * us
			// Each machine has a clock of its own; only spans count. The last delay of one is
			// part of the other's spell.
			delayA, delayB := wake, wake
			pingPong := func(n int) {
				for range n {
					delayB = b.spell(delayA + 2*flight)
					delayA = a.spell(delayB + 2*flight)
				}
			}
			pingPong(2000)
			a.taken()
			b.taken()
			pingPong(100)
			if n, k := a.taken(), b.taken(); n[Sleep]+k[Sleep] > 2*tryFor {
				t.Errorf("wake-ups of %v, %v before: one slept %d of 100 times, the other %d",
					wake, before, n[Sleep], k[Sleep])
			}
		}
	}
}

// TestHog: a thread that computes wants the core. A loop that spun would lose half of it; this one
// sleeps, loses a tenth at most to find out whether the hog has gone, and then spins again.
func TestHog(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Spin} {
		m := newMachine(Config{Mode: mode, SpinFor: 200 * us})
		slice, ran := 3*ms, time.Duration(0)
		m.off = func(s Step) time.Duration {
			ran += pass
			if s == Yield || ran >= slice {
				ran = 0
				return slice
			}
			return 0
		}
		start := m.now
		for m.now.Sub(start) < 10*time.Second {
			m.spell(20 * us)
		}
		if all := m.now.Sub(start); m.lost > all/10 {
			t.Errorf("mode %d: %v of %v lost", mode, m.lost, all)
		}
		if n := m.taken(); n[Sleep] < 1000 {
			t.Errorf("mode %d: slept %d times", mode, n[Sleep])
		}
		m.off = func(Step) time.Duration { return 0 }
		for start = m.now; m.now.Sub(start) < maxHold; {
			m.spell(20 * us)
		}
		m.taken()
		m.spells(1000, 20*us)
		if n := m.taken(); n[Sleep] > 10 { // the tries
			t.Errorf("mode %d: slept %d times after the hog had gone", mode, n[Sleep])
		}
	}
}

// TestOddThread: a loop that is off its core for a small part of the time goes on spinning.
func TestOddThread(t *testing.T) {
	m := newMachine(Config{Mode: Spin})
	next := m.now
	m.off = func(Step) time.Duration {
		if m.now < next {
			return 0
		}
		next = m.now.Add(10 * ms)
		return ms
	}
	start := m.now
	for m.now.Sub(start) < time.Second {
		m.spell(20 * us)
	}
	if n := m.taken(); n[Sleep] > 0 {
		t.Errorf("slept %d times", n[Sleep])
	}
}

// TestSharedCore: if a Yield lets another loop work, each idle pass yields, from the first on.
// When the other one has gone, yielding ends.
func TestSharedCore(t *testing.T) {
	m := newMachine(adaptive)
	m.off = func(s Step) time.Duration {
		if s == Yield {
			return 5 * us
		}
		return 0
	}
	m.spells(10, 40*us)
	m.taken()
	m.spells(100, 20*us)
	if n := m.taken(); n[Poll] > 10*n[Sleep] || n[Sleep] > tryFor {
		t.Errorf("polled %d times, slept %d times", n[Poll], n[Sleep])
	}
	m.off = func(Step) time.Duration { return 0 }
	m.spells(10, 20*us)
	m.taken()
	m.spells(100, 5*us)
	if n := m.taken(); n[Yield] > 0 {
		t.Errorf("yielded %d times to nobody", n[Yield])
	}
}

// TestSpin: a loop that spins never sleeps on a core of its own.
func TestSpin(t *testing.T) {
	m := newMachine(Config{Mode: Spin, SpinFor: 200 * us})
	for _, d := range []time.Duration{us, 100 * us, 100 * ms} {
		m.spells(3, d)
	}
	if n := m.taken(); n[Sleep] > 0 || n[Yield] == 0 {
		t.Errorf("slept %d times, yielded %d times", n[Sleep], n[Yield])
	}
}

// TestRest: a loop that is to save CPU sleeps first. It spins only where packets come much sooner
// than a wake-up takes, one that adapts also where they come later.
func TestRest(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		after  time.Duration
		sleeps bool
	}{
		{Rest, 7 * us, false}, {Rest, 8 * us, true}, {Rest, 35 * us, true},
		{Adaptive, 55 * us, false}, {Adaptive, 195 * us, false}, {Adaptive, 205 * us, true},
	} {
		m := newMachine(Config{Mode: c.mode, SpinFor: 200 * us})
		m.spell(c.after)
		soon := m.order[len(m.order)-1] == Sleep && len(m.order) <= 1+int(brief/pass)
		if soon != (c.mode == Rest) {
			t.Errorf("mode %d: the first steps are %v", c.mode, m.order)
		}
		m.spells(1000, c.after)
		m.taken()
		m.spells(100, c.after)
		n := m.taken()[Sleep]
		if c.sleeps && n < 100-tryFor || !c.sleeps && n > tryFor {
			t.Errorf("mode %d: slept %d of 100 times when packets came after %v", c.mode, n, c.after)
		}
	}
}

// TestTooFewProcessors: a loop sleeps at once if loops outnumber processors, once its handlers had
// their turn: another loop waits for the processor.
func TestTooFewProcessors(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Spin, Rest} {
		m := newMachine(Config{Mode: mode, SpinFor: 200 * us})
		m.state.Spare = -1
		m.spell(100 * us)
		if len(m.order) != 1 || m.order[0] != Sleep {
			t.Errorf("mode %d: steps %v", mode, m.order)
		}
		m.state.Handlers = true
		m.spell(100 * us)
		if len(m.order) != 2 || m.order[0] != Switch || m.order[1] != Sleep {
			t.Errorf("mode %d: steps %v while handlers work", mode, m.order)
		}
	}
}

// TestSwitch: goroutines run at once if handlers are at work, often if loops leave no processor to
// them, and never by a loop that has a thread of its own or if there is a spare processor.
func TestSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		set         func(m *machine)
		first, each time.Duration // 0: never
	}{
		"a spare processor": {func(m *machine) {}, 0, 0},
		"none":              {func(m *machine) { m.state.Spare = 0 }, 16 * us, 16 * us},
		"handlers":          {func(m *machine) { m.state.Handlers = true }, 0, 4 * us},
		"locked":            {func(m *machine) { m.state.Handlers, m.p.cfg.Locked = true, true }, 0, 0},
	} {
		m := newMachine(Config{Mode: Spin})
		c.set(m)
		m.p.switchAt = m.now.Add(time.Hour)
		since, last := m.now, m.now
		count := 0
		for m.now.Sub(since) < 10*ms {
			if m.step(since) == Switch {
				want := c.each
				if count == 0 {
					want = c.first
				}
				if d := m.now.Sub(last); d < want || d > want+us {
					t.Errorf("%s: switch %d after %v, want %v", name, count, d, want)
				}
				last = m.now
				count++
			}
			m.now = m.now.Add(pass)
		}
		if c.each == 0 && count > 0 || c.each > 0 && count < 9 {
			t.Errorf("%s: %d switches", name, count)
		}
	}
}

// TestNoSwitchAfterSleep: a loop that wakes up for nothing sleeps on after one pass, whatever
// handlers wait at its server: they had the processor while it slept.
func TestNoSwitchAfterSleep(t *testing.T) {
	m := newMachine(adaptive)
	m.state.Handlers = true
	since := m.now
	for m.step(since) != Sleep {
		m.now = m.now.Add(us)
	}
	for n := range 100 {
		m.now = m.now.Add(125 * ms)
		m.p.Slept(m.now)
		if s := m.step(since); s != Sleep {
			t.Fatalf("step %v after %d sleeps", s, n+1)
		}
		m.now = m.now.Add(10 * us)
	}
}

// TestShortSpellsSwitchToo: short spells add up, so goroutines get their turn though no spell lasts
// until it.
func TestShortSpellsSwitchToo(t *testing.T) {
	m := newMachine(adaptive)
	m.state.Spare = 0
	m.spells(1000, 7*us)
	if n := m.taken(); n[Switch] < 300 || n[Switch] > 600 {
		t.Errorf("%d switches in 7 ms", n[Switch])
	}
}

// TestHandlersHaveTheProcessor: while handlers run whenever the loop lets them, it goes on to let
// them run and does not sleep. That they had the core is no reason to believe in other threads, and
// such a spell is not measured. When none runs any more the spell ends as others do.
func TestHandlersHaveTheProcessor(t *testing.T) {
	m := newMachine(Config{Mode: Rest, SpinFor: 200 * us})
	m.state = State{Handlers: true, Spare: 1}
	busy, believed := 60, false
	m.off = func(s Step) time.Duration {
		believed = believed || m.p.rivals.want(m.now)
		if s != Switch || busy == 0 {
			return 0
		}
		busy--
		return ms
	}
	m.spell(70 * ms)
	if busy != 0 || believed {
		t.Errorf("%d handlers were not let run, other threads are believed in: %v", busy, believed)
	}
	first := slices.Index(m.order, Sleep)
	if first < 60 {
		t.Errorf("step %d is to sleep", first)
	}
	if !m.p.forced {
		t.Error("the spell was measured")
	}
}

// TestOthersHaveTheProcessor: goroutines that are no handlers and keep the processor are taken for
// other threads.
func TestOthersHaveTheProcessor(t *testing.T) {
	m := newMachine(adaptive)
	m.state.Spare = 0
	believed := false
	m.off = func(s Step) time.Duration {
		believed = believed || m.p.rivals.want(m.now)
		if s == Switch {
			return ms
		}
		return 0
	}
	m.spell(70 * ms)
	if !believed {
		t.Error("nobody is believed in")
	}
}
