package idle

import (
	"testing"
	"time"
)

// beside makes a machine beside rivals, with so many calls from one spell to the next.
func beside(cfg Config, calls uint64) (m *machine, spells func(n int, d time.Duration)) {
	m = newMachine(cfg)
	spells = func(n int, d time.Duration) {
		for range n {
			m.state.Calls += calls
			m.spell(d)
		}
	}
	spells(200, 10*us) // learns how many calls there are
	m.p.rivals.believe(m.now, time.Minute, time.Minute)
	m.taken()
	return m, spells
}

// TestPollsBesideRivals: a loop with several calls at once polls beside rivals while its polls meet
// packets. It gives the core to nobody. One that has few calls, is to save CPU, has a quota, or
// keeps another loop from the processor, sleeps at once.
func TestPollsBesideRivals(t *testing.T) {
	spinFor := 200 * us
	for name, c := range map[string]struct {
		cfg   Config
		calls uint64
		set   func(m *machine)
		polls bool
	}{
		"adaptive":   {Config{SpinFor: spinFor}, 2, nil, true},
		"spinning":   {Config{Mode: Spin, SpinFor: spinFor}, 2, nil, true},
		"own thread": {Config{SpinFor: spinFor, Locked: true}, 2, nil, true},
		"no processor left": {Config{SpinFor: spinFor}, 2,
			func(m *machine) { m.state.Spare = 0 }, true},
		"one call": {Config{SpinFor: spinFor}, 1, nil, false},
		"saving":   {Config{Mode: Rest, SpinFor: spinFor}, 2, nil, false},
		"no time":  {Config{SpinFor: 0}, 2, nil, false},
		"too many loops": {Config{SpinFor: spinFor}, 2,
			func(m *machine) { m.state.Spare = -1 }, false},
		"quota": {Config{SpinFor: spinFor}, 2,
			func(m *machine) { m.p.Throttled(m.now) }, false},
	} {
		m, spells := beside(c.cfg, c.calls)
		if c.set != nil {
			c.set(m)
		}
		spells(1000, 48*us)
		n := m.taken()
		if c.polls && n[Sleep]+n[Yield] > 0 {
			t.Errorf("%s: slept %d times and yielded %d times", name, n[Sleep], n[Yield])
		}
		if !c.polls && (n[Sleep] != 1000 || n[Yield] > 0) {
			t.Errorf("%s: slept %d of 1000 times and yielded %d times", name, n[Sleep], n[Yield])
		}
	}
}

// TestPollsInVain: a loop whose polls meet nothing sleeps at once but for some tries. Each time
// that they are in vain there are fewer. Once they meet packets it polls again, and the next time
// that they don't there are as many tries as at first.
func TestPollsInVain(t *testing.T) {
	m, spells := beside(adaptive, 2)
	for range 2 {
		spells(3, 55*us) // each lasts for all of its 50 us
		if n := m.taken(); n[Poll] < 3*int(50*us/pass)-6 || n[Poll] > 3*int(50*us/pass) {
			t.Errorf("%d polls in three spells", n[Poll])
		}
		spells(2, 55*us) // the points may have been the most there are
		m.taken()
		spells(firstTry-2, 55*us)
		if n := m.taken(); n[Poll]+n[Yield] > 0 || n[Sleep] != firstTry-2 {
			t.Errorf("steps %v where polls are in vain", n)
		}
		spells(10_000, 55*us)
		if n := m.taken(); n[Sleep] != 10_000 || n[Poll] > 150*int(50*us/pass) {
			t.Errorf("slept %d times, polled in %d spells", n[Sleep], n[Poll]/int(50*us/pass))
		}
		spells(lastTry+contestMax, 45*us)
		m.taken()
		if spells(100, 45*us); m.taken()[Sleep] != 0 {
			t.Error("sleeps though polls meet packets")
		}
	}
}

// TestPollsMostlyMet: polls go on while two of three meet a packet, or a little more, and end where
// only half of them do.
func TestPollsMostlyMet(t *testing.T) {
	m, spells := beside(adaptive, 2)
	for range 300 {
		spells(3, 20*us)
		spells(1, 60*us)
	}
	if n := m.taken(); n[Sleep] != 300 {
		t.Errorf("slept %d times for 300 packets that came late", n[Sleep])
	}
	for range 500 {
		spells(1, 20*us)
		spells(1, 60*us)
	}
	if n := m.taken(); n[Sleep] < 900 {
		t.Errorf("slept %d of 1000 times where half of the packets come late", n[Sleep])
	}
}

// TestContestTries: after polls in vain there is a try after firstTry spells, and then after twice
// as many each time, up to lastTry.
func TestContestTries(t *testing.T) {
	var c contest
	c.init()
	want := firstTry
	for range 6 {
		for c.polls() {
			c.count(true, false)
		}
		n := 0
		for ; !c.polls(); n++ {
			c.count(false, false)
		}
		if n != want {
			t.Errorf("a try after %d spells, want %d", n, want)
		}
		want = min(2*want, lastTry)
	}
}
