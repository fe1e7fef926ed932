package adaptive

import (
	"testing"
	"time"
)

// teach ends the turns of a chooser, whose ways take so long.
func teach(c *Chooser, took ...time.Duration) {
	for range turns * len(took) * turnCalls {
		w := c.Next()
		c.Ended(w, took[w])
	}
}

// endless is more calls than there are between two probes.
const endless = 5_000_000

// gap makes calls, one after the other, until one goes another way than way. It returns how many
// went that way before, endless at most. The other call ends too.
func gap(c *Chooser, way int, took ...time.Duration) (n int) {
	for ; n < endless; n++ {
		w := c.Next()
		c.Ended(w, took[w])
		if w != way {
			break
		}
	}
	return n
}

// TestTurns holds how a chooser learns: turns of the ways one after the other, the first one of
// each forgotten and the others averaged, and then the best way, the first one of equals.
func TestTurns(t *testing.T) {
	c := NewChooser(2, 1)
	took := []time.Duration{9000, 8000, 1000, 1600, 2000, 1000} // of the calls of a turn
	for i, d := range took {
		for k := range turnCalls {
			if w := c.Next(); w != i%2 {
				t.Fatalf("call %d of turn %d goes way %d", k, i, w)
			}
			c.Ended(1-i%2, time.Hour) // of another turn, late
			c.Ended(i%2, d)
		}
	}
	if c.Next() != 1 || c.Best() != 1 || c.Mean(0) != 1500 || c.Mean(1) != 1300 {
		t.Errorf("best %d, means %v and %v, want 1, 1500 and 1300", c.Best(), c.Mean(0), c.Mean(1))
	}
	c = NewChooser(3, 1)
	teach(c, 1000, 1000, 1000)
	if c.Best() != 0 {
		t.Errorf("of equals, way %d", c.Best())
	}
}

// TestOneWay holds what is known of a single way after its one turn, and how fast it is forgotten.
func TestOneWay(t *testing.T) {
	c := NewChooser(1, 1)
	for range turnCalls {
		c.Ended(c.Next(), 1000)
	}
	if c.Ended(c.Next(), 1000+64*100); c.Mean(0) != 1100 {
		t.Errorf("mean %v after a call 6400 slower, want 1100", c.Mean(0))
	}
}

// TestGaps holds how many calls lie between two probes: a way that takes twice the best time is
// probed after 800 calls in the mean, one of four times that time after 2400, so that probes of 8
// calls cost 1 %. The least is 512 and the most a million. A random half is left out or added.
func TestGaps(t *testing.T) {
	for _, c := range []struct {
		took   time.Duration // the best has 1000
		wait   int
		probes int
	}{{1000, 512, 200}, {1200, 512, 200}, {2000, 800, 200}, {4000, 2400, 100}, {1e9, 1e6, 2}} {
		k := NewChooser(2, 1)
		teach(k, 1000, c.took)
		sum := 0
		for range c.probes {
			n := gap(k, 0, 1000, c.took)
			if n == endless {
				t.Fatalf("%v: no probe", c.took)
			}
			for range probed - 1 {
				w := k.Next()
				if k.Ended(w, c.took); w != 1 {
					t.Fatalf("%v: a call of a probe goes way %d", c.took, w)
				}
			}
			if sum += n; n+1 < c.wait/2 || n+1 >= c.wait/2+c.wait {
				t.Errorf("%v: probe after %d calls, want %d to %d", c.took, n, c.wait/2, 3*c.wait/2)
			}
		}
		if mean := sum / c.probes; c.probes > 2 && (mean < c.wait*9/10 || mean > c.wait*11/10) {
			t.Errorf("%v: %d calls between probes, want %d", c.took, mean, c.wait)
		}
	}
}

// TestDue holds a probe to the call that its schedule names.
func TestDue(t *testing.T) {
	for seed := range uint64(20) {
		c := NewChooser(2, seed)
		teach(c, 1000, 2000)
		want := c.ways[1].due
		if n := gap(c, 0, 1000, 2000); n+1 != want {
			t.Fatalf("seed %d: call %d is the first of the probe, want %d", seed, n+1, want)
		}
	}
}

// TestTwoDue holds that of two probes which are due at once the first way's comes first, whole.
func TestTwoDue(t *testing.T) {
	c := NewChooser(3, 1)
	teach(c, 2000, 1000, 2000)
	c.ways[0].due, c.ways[2].due = 1, 1
	for k := range 2 * probed {
		w := c.Next()
		if want := k / probed * 2; w != want {
			t.Fatalf("call %d goes way %d, want %d", k, w, want)
		}
		c.Ended(w, 2000)
	}
}

// TestRefusal holds what a refusal counts as: 100 us and four times the least of the other ways.
func TestRefusal(t *testing.T) {
	for _, took := range [][]time.Duration{{1000, 2000, 3000}, {1000, 3000, 2000}} {
		c := NewChooser(3, 1)
		teach(c, took...)
		if c.Refused(0); c.Mean(0) != 1000+(4*2000+100_000-1000)/64 {
			t.Errorf("%v: a mean of %v", took, c.Mean(0))
		}
	}
}

// TestGain holds by how much a way must be better: a probe at 0.97 of the best time changes
// nothing. A better one is followed by a second of twice the calls, after which the way is the
// best, and the old one is probed as late as it is behind.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		calls int
		best  int
	}{
		{1020, probed, 0}, {990, probed, 0}, {970, probed, 0}, {969, 3 * probed, 1},
		{10, 3 * probed, 1},
	} {
		k := NewChooser(2, 5)
		teach(k, 1000, 2000)
		gap(k, 0, 1000, c.took)
		calls := 1
		for ; calls < 100; calls++ {
			w := k.Next()
			if k.Ended(w, []time.Duration{1000, c.took}[w]); w == 0 {
				break
			}
			if k.Best() == 1 {
				calls++
				break
			}
		}
		if calls != c.calls || k.Best() != c.best || k.Mean(0) != 1000 {
			t.Errorf("%v against 1000: a probe of %d calls, then the best is %d, want %d and %d",
				c.took, calls, k.Best(), c.calls, c.best)
		}
		if c.took != 10 {
			continue
		}
		// 99 times behind: a wait of 79,200 calls.
		if n := gap(k, 1, 1000, c.took); n+1 < 39_600 || n+1 >= 3*39_600 {
			t.Errorf("the old way is probed after %d calls", n)
		}
	}
}

// TestProbeOverlaps holds a probe whose calls end late: no more than its calls go its way, the
// others the best way meanwhile; its end is judged once, and a better way is found.
func TestProbeOverlaps(t *testing.T) {
	const window = 40
	for _, took := range []time.Duration{500, 3000} {
		c := NewChooser(2, 1)
		teach(c, 1000, 2000)
		var open []int
		next := func() int {
			open = append(open, c.Next())
			return open[len(open)-1]
		}
		end := func() {
			w := open[0]
			open = open[1:]
			c.Ended(w, []time.Duration{1000, took}[w])
		}
		for n := 0; next() == 0; n++ {
			if end(); n > 10_000 {
				t.Fatal("no probe")
			}
		}
		probe := 1
		for range window {
			probe += next()
		}
		if probe != probed {
			t.Fatalf("%d calls of a probe went its way", probe)
		}
		for range 100_000 {
			if end(); len(open) < window {
				next()
			}
		}
		if want := map[time.Duration]int{500: 1, 3000: 0}[took]; c.Best() != want {
			t.Errorf("best %d, want %d", c.Best(), want)
		}
		// Probes go on.
		count := 0
		for range 100_000 {
			end()
			count += next()
		}
		if count == 0 || count == 100_000 {
			t.Errorf("%v: %d of 100000 calls went the second way", took, count)
		}
	}
}
