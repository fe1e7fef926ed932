package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// TestLeaderLeaves: the leader's process is asked to end under load, default ticks, with disks and
// in memory. It hands over: there is no time of 80 ms without a write. When the others are asked,
// too, they end, though nobody leads on.
func TestLeaderLeaves(t *testing.T) {
	for _, durable := range []bool{true, false} {
		sh := shape{replicas: 3, durable: durable, tick: 20 * time.Millisecond, keep: 1000, every: 1000,
			disk: 4 * time.Millisecond}
		c := newCluster(t, rand.New(rand.NewPCG(1, 1)),
			sim.Config{Seed: 1, Checksum: true, PropDelay: 50 * time.Microsecond}, sh)
		c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
		for range 3 {
			c.user(1)
		}
		var last sim.Time
		var gap time.Duration
		over, count := false, 0
		var again func(u *user)
		again = func(u *user) {
			count++
			u.do(putCommand("k", fmt.Sprint(count)), 10*time.Second, func(r client.Result) {
				if r.Err != nil {
					t.Error(r.Err)
				}
				if now := c.net.Now(); r.Err == nil {
					gap, last = max(gap, now.Sub(max(last, 1))), now
				}
				if !over {
					c.net.After(4*time.Millisecond, func() { again(u) })
				}
			})
		}
		for _, u := range c.clients {
			again(u)
		}
		c.run(100 * time.Millisecond)
		gap = 0
		old := c.leader()
		old.leaves = true
		old.ep.Wake()
		c.await(2*time.Second, "it does not end", func() bool { return old.down })
		if c.run(100 * time.Millisecond); gap > 80*time.Millisecond {
			t.Errorf("durable %v: no write for %v", durable, gap)
		}
		over = true
		c.run(10 * time.Millisecond)
		for _, s := range c.servers {
			if s.leaves = true; !s.down {
				s.ep.Wake()
			}
		}
		c.await(2*time.Second, "the others do not end", func() bool {
			return c.servers[0].down && c.servers[1].down && c.servers[2].down
		})
		c.close()
	}
}
