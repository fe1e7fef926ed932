package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// TestFailover: the leader dies without a sign, default settings. The others name it until they
// elect another one. Clients that got no answer of it do not ask it again for that: they find the
// new one at once, or when their first attempt is over, if it leads within a second.
func TestFailover(t *testing.T) {
	seeds := uint64(20)
	if raced {
		seeds = 2
	}
	for seed := range seeds {
		sh := shape{replicas: 3, durable: true, tick: 20 * time.Millisecond, keep: 1000, every: 1000,
			disk: 2 * time.Millisecond, attempt: 250 * time.Millisecond}
		if seed%2 == 1 {
			sh.psk = [][]byte{make([]byte, 32)}
		}
		c := newCluster(t, rand.New(rand.NewPCG(seed, 1)),
			sim.Config{Seed: seed, Checksum: true, PropDelay: 50 * time.Microsecond}, sh)
		for i, s := range c.servers { // ticks at the same time would split votes
			s.skew = time.Duration(i) * 7 * time.Millisecond
		}
		c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
		old, count := c.leader(), 0
		var at, late sim.Time
		var again func(u *user)
		again = func(u *user) {
			count++
			u.do(putCommand("k", fmt.Sprint(count)), 10*time.Second, func(r client.Result) {
				if r.Err != nil {
					t.Error(r.Err)
				}
				if old.down {
					late = c.net.Now()
				} else {
					again(u)
				}
			})
		}
		for range 4 {
			again(c.user(1))
		}
		c.run(time.Duration(100+c.r.IntN(20)) * time.Millisecond)
		old.crash()
		at = c.net.Now()
		c.await(5*time.Second, "nobody else leads", func() bool {
			l := c.leader()
			return l != nil && l != old
		})
		first := max(c.net.Now(), at.Add(sh.attempt))
		c.await(5*time.Second, "no write", func() bool { return !slices.ContainsFunc(c.clients, busy) })
		if first < at.Add(time.Second) && late > first.Add(30*time.Millisecond) {
			t.Errorf("seed %d: another replica leads after %v; the last client has found it after %v", seed,
				first.Sub(at), late.Sub(at))
		}
		c.close()
	}
}

func busy(u *user) bool { return u.busy }
