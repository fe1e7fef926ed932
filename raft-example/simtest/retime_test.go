package simtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// TestRetimes: tick and lease of a cluster change again and again, up and down, while leaders are
// cut off and members start again with flags of all kinds. No read is stale, and in the end all
// have what the log says.
func TestRetimes(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	if raced {
		seeds = 2
	}
	changes, leased := 0, 0
	for seed := range uint64(seeds) {
		c, l := retimes(t, seed)
		changes, leased = changes+c, leased+l
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d seeds: %d changes, %d reads under a lease", seeds, changes, leased)
	if !raced && (changes < 4*seeds || leased < 100*seeds) {
		t.Error("the runs did too little")
	}
}

// retimed is a cluster whose tick and lease change.
type retimed struct {
	*cluster
	op      *user
	changes int
}

func retimes(t *testing.T, seed uint64) (changes, leased int) {
	r := rand.New(rand.NewPCG(seed, 46))
	sh := small
	sh.lease, sh.disk, sh.attempt = 6*tick, 100*time.Microsecond, 4*time.Millisecond
	sh.keep, sh.every = 10+r.Uint64N(90), 20+r.Uint64N(200)
	c := &retimed{cluster: newCluster(t, r, sim.Config{Seed: seed, Checksum: true,
		PropDelay: 5 * time.Microsecond}, sh)}
	defer c.close()
	c.op = c.user(1)
	c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
	c.await(10*time.Second, "no upgrade", func() bool {
		if c.leader() == nil {
			return false
		}
		a, ok := c.upgrade(c.op, c.leader())
		return ok && a.Status == kv.OK
	})
	c.await(10*time.Second, "no first change", func() bool { // until then flags count
		if c.leader() != nil && c.changes == 0 {
			c.retime(c.leader())
		}
		return c.changes > 0
	})
	for range 5 {
		u := c.user(2)
		u.until = c.net.Now().Add(time.Hour)
		u.loop()
	}
	for range 25 {
		c.step()
	}
	for _, u := range c.clients {
		u.until = c.net.Now()
	}
	x := &run{cluster: c.cluster, sum: &totals{}}
	x.settle(2)
	var first replica.Timing
	for i, s := range c.servers {
		st := s.n.Replica().Status()
		if i == 0 {
			first = st.Timing
		}
		if st.Timing != first || !first.Agreed {
			t.Errorf("replica %d has %+v, the first one %+v", s.id, st.Timing, first)
		}
	}
	if err := c.hist.Check(time.Minute); err != nil {
		t.Error(err)
	}
	return c.changes, x.sum.leased
}

// step does one thing, and lets time pass.
func (c *retimed) step() {
	s := c.servers[c.r.IntN(len(c.servers))]
	if l := c.leader(); l != nil && c.r.IntN(2) == 0 {
		s = l
	}
	switch c.r.IntN(6) {
	case 0, 1, 2:
		if l := c.leader(); l != nil {
			c.retime(l)
		}
	case 3: // it goes on serving those whom it reaches
		for _, o := range c.servers {
			if o != s {
				c.between(o.machine, s.machine)
			}
		}
		for _, u := range c.clients {
			if c.r.IntN(2) == 0 {
				c.between(u.machine, s.machine)
			}
		}
		c.net.After(c.below(300*time.Millisecond), c.net.Heal)
	case 4:
		s.crash()
		s.tick = kv.MinTick + c.below(4*tick)
		s.lease = c.below(9 * s.tick)
		c.net.After(c.below(20*time.Millisecond), func() {
			if s.down {
				s.start()
			}
		})
	default:
		for _, o := range c.servers { // one of the followers alone
			if l := c.leader(); l != nil && o != l && o != s {
				c.between(o.machine, l.machine)
				break
			}
		}
		c.net.After(c.below(300*time.Millisecond), c.net.Heal)
	}
	c.run(c.below(150 * time.Millisecond))
}

// retime changes tick and lease, unless the leader goes meanwhile.
func (c *retimed) retime(l *server) {
	to := replica.Timing{Tick: kv.MinTick + c.below(4*tick), Lease: -1}
	if c.r.IntN(3) > 0 {
		to.Lease = time.Duration(7+c.r.IntN(3)) * to.Tick
	}
	b := c.ask(c.op, l, node.TypeAdmin, node.Admin{Cluster: testCluster, Timing: &to})
	switch a, err := kv.ParseAnswer(b); {
	case err != nil || a.Status == kv.NotLeader || a.Status == kv.Retry:
	case a.Status == kv.OK:
		c.changes++
	default:
		c.t.Errorf("%+v: %+v", to, a)
	}
}

// TestRetimeSplit: the leader has a long lease, and makes tick and lease short. As soon as that is
// done it is cut off: the others elect one of them at once, and the lease of before must not count.
func TestRetimeSplit(t *testing.T) {
	testSplits(t, 8*tick, func(s *split, l, f, g *server) {
		op := s.user(1)
		s.await(10*time.Second, "no upgrade", func() bool {
			a, ok := s.upgrade(op, l)
			return ok && a.Status == kv.OK
		})
		s.run(20 * s.tick) // reads have begun a lease
		to := replica.Timing{Tick: tick + s.below(tick), Lease: -1}
		if err := l.n.Replica().Retime(to, ^uint64(0)); err != nil {
			t.Fatal(err)
		}
		l.n.Poll()
		l.ep.Wake()
		s.await(s.tick, "not done", func() bool {
			return f.n.Replica().TickTime() == to.Tick && g.n.Replica().TickTime() == to.Tick
		})
		s.tick = to.Tick
		s.apart(l, f, g)
	})
}
