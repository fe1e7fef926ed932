package rfplab

import (
	"flag"
	"testing"
	"time"
)

var all = flag.Bool("rfplab.all", false, "TestAdaptive with all process times, sizes and clients")

// TestAdaptive holds that clients which choose are never more than 10 % behind the best fixed way
// after 1000 calls each.
func TestAdaptive(t *testing.T) {
	processes, sizes := []time.Duration{0, 10 * time.Microsecond}, []int{32, 4096}
	clients := []int{1, 12}
	switch {
	case *all:
		processes = []time.Duration{0, 5000, 10_000, 20_000}
		sizes, clients = []int{32, 512, 8192}, []int{1, 8, 64}
	case testing.Short():
		processes, sizes = processes[:1], sizes[:1]
	}
	list, err := Choices(1, processes, sizes, clients)
	if err != nil {
		t.Fatal(err)
	}
	best, worst := map[int]int{}, 0.0
	for _, c := range list {
		t.Logf("%s, %v, %d B, %d clients: fetch %.3f reply %.3f erpc %.3f, adaptive %.3f M/s, %v: "+
			"%.1f %% behind", c.Adapters, c.Process, c.Value, c.Clients, c.Fixed[0]/1e6,
			c.Fixed[1]/1e6, c.Fixed[2]/1e6, c.Adaptive/1e6, c.Ways, 100*c.Behind())
		worst = max(worst, c.Behind())
		if c.Behind() > .1 {
			t.Errorf("adapters %s, %v, %d B, %d clients: %.0f %% behind", c.Adapters, c.Process,
				c.Value, c.Clients, 100*c.Behind())
		}
		for w := range c.Fixed {
			if c.Fixed[w] >= max(c.Fixed[0], c.Fixed[1], c.Fixed[2]) {
				best[w]++
			}
		}
	}
	t.Logf("%d cases, %.1f %% behind at most; each way is the best one in %v", len(list), 100*worst,
		best)
	if *all && len(best) < 2 {
		t.Errorf("one way is best everywhere: %v", best)
	}
}
