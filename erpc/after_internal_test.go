package erpc

import (
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestTimerHeap: a timer is in its place after each change, of many timers.
func TestTimerHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c, all := newCallTimers(), make([]Timer, 100)
	for range 5000 {
		x := &all[rng.IntN(len(all))]
		if rng.IntN(3) == 0 {
			c.remove(x)
		} else {
			c.set(x, monotime.Time(rng.IntN(1000)))
		}
		c.check()
		first := monotime.Never
		for i := range all {
			if all[i].place != 0 {
				first = min(first, all[i].at)
			}
		}
		if c.at != first {
			t.Fatalf("the first timer is due at %d, want %d", c.at, first)
		}
	}
}
