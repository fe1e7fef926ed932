package idle

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestGuess: most of the last spells decide, and few are enough.
func TestGuess(t *testing.T) {
	var g guess
	g.init(true)
	for n := range 100 {
		g.count(false, false)
		if g.spin != (n < maxScore-1) {
			t.Fatalf("after %d late packets: spin %v", n+1, g.spin)
		}
	}
	for n := range 100 {
		g.count(true, true)
		if g.spin != (n >= -minScore) {
			t.Fatalf("after %d early packets: spin %v", n+1, g.spin)
		}
	}
	for range 100 { // two of three
		g.count(true, true)
		g.count(false, false)
		g.count(true, true)
		if !g.spin {
			t.Fatal("one late packet of three")
		}
	}
}

// TestRegular: sixty-two regular packets in a row are enough, and then two odd ones are too many
// unless thirty-one others come between them. Those that come soon do not count.
func TestRegular(t *testing.T) {
	var g guess
	g.init(false)
	for n := range 80 {
		g.count(false, true)
		if g.spin != (n+1 >= maxSure) {
			t.Fatalf("after %d packets: spin %v", n+1, g.spin)
		}
	}
	for range 10 {
		g.count(false, false)
		for range oddCounts {
			if g.count(false, true); !g.spin {
				t.Fatal("one odd packet of thirty-two")
			}
		}
	}
	if g.count(false, false); !g.spin {
		t.Fatal("one odd packet")
	}
	sure := g.sure
	for range 100 {
		g.count(true, false)
	}
	if g.sure != sure {
		t.Errorf("packets that come soon count: %d, before %d", g.sure, sure)
	}
	for range maxScore {
		g.count(false, false)
	}
	if g.spin {
		t.Fatal("odd packets alone")
	}
}

// TestUsual: a packet is regular if it comes within the usual time and half of it, and within the
// limit. The usual time follows, and one packet that is very late does not change it much.
func TestUsual(t *testing.T) {
	const limit = 140 * us
	g := guess{usual: 90 * us}
	for came, want := range map[time.Duration]bool{us: true, 90 * us: true, 135 * us: true,
		136 * us: false} {
		g.usual = 90 * us
		if g.regular(came, limit) != want {
			t.Errorf("%v: %v", came, !want)
		}
	}
	g.usual = 120 * us
	if !g.regular(limit, limit) || g.regular(limit+1, limit) {
		t.Error("the limit")
	}
	g.usual = 80 * us
	if g.regular(time.Hour, limit); g.usual != 90*us {
		t.Errorf("%v after a packet that is very late", g.usual)
	}
	g = guess{}
	if g.regular(50*us, limit); g.usual != 50*us {
		t.Errorf("%v after the first packet", g.usual)
	}
}

// TestPrice: the cost of a sleep is found in either mode, and stays within bounds. It is unknown
// where a spin meets no packet, and that of a wake-up that a spin saves nothing of is the least.
func TestPrice(t *testing.T) {
	for _, c := range []struct {
		wake, after, want time.Duration
		found             bool
	}{
		{30 * us, 20 * us, 30 * us, true},
		{30 * us, 90 * us, 30 * us, true},
		{99 * us, 150 * us, 99 * us, true},
		{60 * us, 190 * us, 60 * us, true},
		{us, 50 * us, minCost, true},
		{150 * us, 90 * us, maxCost, true},
		{30 * us, 250 * us, maxCost, false}, // a spin ends before
		{30 * us, ms, maxCost, false},
		{30 * us, 9 * us, maxCost, false}, // sooner than any sleep is worth
	} {
		m := newMachine(adaptive)
		m.wake = c.wake
		m.spells(1500, c.after)
		g := &m.p.guesses[1]
		if d := g.price() - c.want; d < -us || d > us || (g.found > 0) != c.found {
			t.Errorf("wake-ups of %v, packets after %v: a sleep costs %v by %d tries, want %v",
				c.wake, c.after, g.price(), g.found, c.want)
		}
	}
}

// TestTries: how many spells are between tries, and how many are in one. Spells too brief to matter
// and those too long to learn from do not count.
func TestTries(t *testing.T) {
	for spin, between := range map[bool][]int{
		true:  {24, 96, 192, 384, 512, 512},
		false: {24, 48, 96, 192, 256, 256},
	} {
		var g guess
		g.init(spin)
		for i, want := range between {
			n := 0
			for ; g.spin == spin; n++ {
				g.measure(us, true, true, true)
				g.measure(time.Hour, false, false, false)
				g.measure(100*us, true, true, false)
			}
			if n != want {
				t.Errorf("spin %v: try %d after %d spells, want %d", spin, i, n, want)
			}
			for n = 0; g.spin != spin; n++ {
				g.measure(50*us, n > 0, n > 0, false)
			}
			if n != tryFor || g.found != min(i+1, triesOf) {
				t.Errorf("spin %v: try %d lasts %d spells, and %d count", spin, i, n, g.found)
			}
		}
	}
}

// TestTryThatMeetsNothing: it ends, and changes nothing.
func TestTryThatMeetsNothing(t *testing.T) {
	var g guess
	g.init(false)
	for !g.spin {
		g.measure(100*us, true, true, false)
	}
	g.spun = 7 * us
	for range tryFor {
		g.measure(250*us, true, false, false)
	}
	if g.spin || g.found != 0 || g.spun != 7*us || g.price() != maxCost {
		t.Errorf("%+v", g)
	}
}

// TestAverages: spells count for the average of what the loop did in them. That of long ago does
// not count, that of a moment ago does.
func TestAverages(t *testing.T) {
	for ran, want := range map[int]time.Duration{firstTry - 1: 95 * us, firstTry: 60 * us} {
		g := guess{spin: true, score: 1, wait: 1000, spun: 40 * us, slept: 100 * us}
		g.measure(48*us, true, true, false)
		g.ran = ran
		g.count(false, false)
		g.measure(60*us, true, true, false)
		if g.spin || g.spun != 41*us || g.slept != want || g.ran != 1 {
			t.Errorf("%d spells before: %+v, want %v", ran, g, want)
		}
	}
}

// TestCostIsAverage: the first tries count alike, later each for a quarter.
func TestCostIsAverage(t *testing.T) {
	var g guess
	for i, want := range []time.Duration{40_000, 20_000, 40_000, 30_000, 42_500, 31_875} {
		g.slept, g.spun = 200*us, 160*us // 40
		switch {
		case i%2 == 1:
			g.spun = 200 * us // 0
		case i > 0:
			g.spun = 120 * us // 80
		}
		if g.compare(); g.cost != want {
			t.Errorf("try %d: %v, want %v", i, g.cost, want)
		}
	}
}

// TestCostChanges: a machine whose wake-ups become slow or quick, or packets that tell another
// cost, are noticed after a few tries.
func TestCostChanges(t *testing.T) {
	for _, c := range []struct {
		mode         Mode
		before, wake time.Duration
		after        time.Duration
		within       int // spells
		spins        bool
	}{
		{Adaptive, 5 * us, 60 * us, 90 * us, 1000, true},
		{Adaptive, 60 * us, 5 * us, 90 * us, 1500, false},
		{Adaptive, 5 * us, 30 * us, 30 * us, 1000, true},
		{Rest, 5 * us, 100 * us, 15 * us, 3000, true},
		{Rest, 100 * us, 30 * us, 15 * us, 5000, false},
		{Rest, 80 * us, 30 * us, 18 * us, 5000, false}, // they seem soon where it slept alone
	} {
		m := newMachine(Config{Mode: c.mode, SpinFor: 200 * us})
		m.wake = c.before
		m.spells(2000, c.after)
		m.wake = c.wake
		m.spells(c.within, c.after)
		m.taken()
		m.spells(100, c.after)
		if n := m.taken()[Sleep]; c.spins && n > tryFor || !c.spins && n < 100-tryFor {
			t.Errorf("%+v: slept %d of 100 times", c, n)
		}
	}
}

// TestRandomArrivals: packets come at random. A loop spins where most of them come within twice the
// cost of a sleep, and hardly ever where few do; in between it does both.
func TestRandomArrivals(t *testing.T) {
	for _, c := range []struct {
		wake, mean time.Duration
		min, max   float64 // share of the spells in which it is to spin
	}{
		{5 * us, 20 * us, 0.1, 0.6}, // 39 % of the packets come within 10 us
		{5 * us, 50 * us, 0, 0.35},  // 18 %
		{5 * us, 200 * us, 0, 0.1},
		{55 * us, 20 * us, 0.98, 1},
		{55 * us, 50 * us, 0.95, 1},
		{55 * us, 200 * us, 0.1, 0.7}, // 42 % come within 110 us
		// Few come within twice the cost, and all within nine times or 200 us: but not regularly.
		{30 * us, 200 * us, 0, 0.2},
		{12 * us, 50 * us, 0.1, 0.6},
		{7 * us, 20 * us, 0.2, 0.7},
		{7 * us, 30 * us, 0.05, 0.4},
	} {
		m := newMachine(adaptive)
		m.wake = c.wake
		r := rand.New(rand.NewPCG(1, 2))
		const n = 40_000
		spun := 0
		for i := range n + 1000 {
			if i >= 1000 && m.p.guesses[1].spin {
				spun++
			}
			m.spell(time.Duration(r.ExpFloat64() * float64(c.mean)))
		}
		share := float64(spun) / n
		t.Logf("wake-ups of %v, packets after %v: spins in %.2f of the spells", c.wake, c.mean, share)
		if share < c.min || share > c.max {
			t.Errorf("wake-ups of %v, packets after %v: spins in %.2f of the spells, want %v to %v",
				c.wake, c.mean, share, c.min, c.max)
		}
	}
}

// TestForcedSpells: spells in which the loop must sleep, or never does, say nothing about the cost
// of a sleep.
func TestForcedSpells(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode
		set  func(m *machine)
	}{
		"rivals":     {Adaptive, func(m *machine) { m.p.rivals.until = m.now.Add(time.Hour) }},
		"processors": {Adaptive, func(m *machine) { m.state.Spare = -1 }},
		"spin":       {Spin, func(m *machine) {}},
	} {
		m := newMachine(Config{Mode: c.mode, SpinFor: 200 * us})
		c.set(m)
		m.spells(1000, 40*us)
		if g := m.p.guesses[1]; g.found > 0 || g.slept+g.spun > 0 || !g.spin {
			t.Errorf("%s: %+v", name, g)
		}
	}
	m := newMachine(adaptive)
	m.state.Spare = -1
	m.spell(40 * us)
	m.state.Spare = 1
	if m.spell(40 * us); m.p.guesses[1].spun == 0 {
		t.Error("a spell after one that was forced does not count")
	}
}

// TestCostAsExpected: a cost of half to twice the one before is, and the first is in any case.
func TestCostAsExpected(t *testing.T) {
	for cost, want := range map[time.Duration]bool{
		20*us - 1: false, 20 * us: true, 80 * us: true, 80*us + 1: false,
	} {
		first := guess{slept: cost}
		later := guess{slept: cost, cost: 40 * us, found: 1}
		if got := later.compare(); got != want || !first.compare() {
			t.Errorf("%v: %v, want %v", cost, got, want)
		}
	}
}
