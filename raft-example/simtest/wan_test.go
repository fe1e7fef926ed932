package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// TestWAN: the leader's clients are near it, its followers 50 ms away, there and back. A PUT takes
// hardly more than that round trip, be the clients many or few: so their rate grows with their
// number. On paths where packets overtake each other it is a share of that.
func TestWAN(t *testing.T) {
	const trip = 50 * time.Millisecond
	tests := []struct {
		clients int
		jitter  time.Duration
		least   float64 // of what one PUT in a round trip gives
	}{{8, 0, 0.9}, {64, 0, 0.7}, {200, 0, 0.4}, {64, trip / 10, 0.5}, {64, trip, 0.3}}
	if raced {
		tests = tests[:1]
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.clients, " ", test.jitter), func(t *testing.T) {
			t.Cleanup(seedRaft(1))
			c := newCluster(t, rand.New(rand.NewPCG(1, 1)),
				sim.Config{Seed: 1, Checksum: true, PropDelay: 10 * time.Microsecond, LinkBitsPerSec: 1e9},
				shape{replicas: 3, tick: 20 * time.Millisecond, keep: 1 << 20, every: 1 << 20,
					attempt: time.Second})
			t.Cleanup(c.close)
			c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
			for _, a := range c.servers {
				for _, b := range c.servers {
					if a != b {
						_ = c.net.SetPathFaults(a.machine, b.machine,
							&sim.Faults{Delay: trip / 2, Jitter: test.jitter})
					}
				}
			}
			puts, failed := 0, 0
			for i := range test.clients {
				u, cmd := c.user(1), putCommand(fmt.Sprint("key", i), "value")
				var again func()
				again = func() {
					u.do(cmd, 10*time.Second, func(r client.Result) {
						if puts++; r.Err != nil {
							failed++
						}
						c.net.After(0, again)
					})
				}
				again()
			}
			c.run(2 * time.Second)
			before := puts
			c.run(2 * time.Second)
			rate := float64(puts-before) / 2
			full := float64(test.clients) / (trip + test.jitter).Seconds()
			t.Logf("%.0f PUT/s, %.2f of one in a round trip, %d failed", rate, rate/full, failed)
			if rate < test.least*full || failed > 0 {
				t.Errorf("want %v of it", test.least)
			}
		})
	}
}
