package adaptive

import (
	"math/rand/v2"
	"testing"
	"time"
)

// play makes n calls one after the other and returns how many went each way, and all their time.
func play(c *Chooser, rng *rand.Rand, n int, mean []time.Duration) (count [MaxWays]int,
	all time.Duration) {
	for range n {
		w := c.Next()
		took := time.Duration(float64(mean[w]) * (.7 + .6*rng.Float64()))
		c.Ended(w, took)
		count[w]++
		all += took
	}
	return count, all
}

// TestLearns holds that after 1000 calls the best way has nearly all, and that the rest costs
// little, however the ways compare.
func TestLearns(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(4)
		mean := make([]time.Duration, n)
		best := time.Duration(1 << 60)
		for i := range mean {
			mean[i] = time.Duration(1000 + rng.IntN(30_000))
			best = min(best, mean[i])
		}
		c := NewChooser(n, seed)
		play(c, rng, 1000, mean)
		if _, all := play(c, rng, 20_000, mean); float64(all) > 1.06*20_000*float64(best) {
			t.Errorf("seed %d, ways %v: %v per call, best %v", seed, mean, all/20_000, c.Best())
		}
	}
}

// TestChanges holds that a way that becomes better is found, and one that becomes worse is left.
func TestChanges(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := NewChooser(3, seed)
		play(c, rng, 5000, []time.Duration{1000, 1500, 3000})
		if c.Best() != 0 {
			t.Fatalf("seed %d: way %d", seed, c.Best())
		}
		play(c, rng, 60_000, []time.Duration{2500, 1500, 700})
		if c.Best() != 2 {
			t.Errorf("seed %d: way %d after a change, %v", seed, c.Best(), c.ways)
		}
	}
}

// TestOverlap holds that calls which end late, and in any order, confuse nothing.
func TestOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	mean := []time.Duration{4000, 2000, 9000}
	c := NewChooser(3, 1)
	type call struct {
		way  int
		took time.Duration
	}
	var open []call
	var count [3]int
	for i := range 40_000 {
		w := c.Next()
		open = append(open, call{w, time.Duration(float64(mean[w]) * (.7 + .6*rng.Float64()))})
		if i > 2000 {
			count[w]++
		}
		for len(open) > 16 {
			j := rng.IntN(len(open))
			c.Ended(open[j].way, open[j].took)
			open = append(open[:j], open[j+1:]...)
		}
	}
	if c.Best() != 1 || count[1] < 37_000 {
		t.Errorf("best %d, counts %v", c.Best(), count)
	}
	c.Ended(99, 1)
	c.Ended(-1, 1)
}
