package simtest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// small is a cluster of three with fast disks.
var small = shape{replicas: 3, durable: true, tick: tick, keep: 1000, every: 1000,
	disk: 2 * time.Millisecond}

// calm makes a cluster without faults, that has a leader, and a client.
func calm(t *testing.T, sh shape) (*cluster, *user) {
	t.Helper()
	c := newCluster(t, rand.New(rand.NewPCG(1, 1)),
		sim.Config{Seed: 1, Checksum: true, PropDelay: 10 * time.Microsecond}, sh)
	t.Cleanup(c.close)
	u := c.user(1)
	c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
	return c, u
}

func putCommand(key, value string) kv.Command {
	cmd := kv.Command{Op: kv.Put}
	cmd.Key, _ = kv.MakeKey(key)
	cmd.Value, _ = kv.MakeValue(value)
	return cmd
}

// put does one PUT and returns how it ended.
func (c *cluster) put(u *user, value string) (end client.Result) {
	c.t.Helper()
	u.do(putCommand("k", value), 10*time.Second, func(r client.Result) { end = r })
	c.await(11*time.Second, "no end", func() bool { return !u.busy })
	return end
}

// propose gives the leader commands of its own, and waits until they are applied.
func (c *cluster) propose(list ...kv.Command) {
	c.t.Helper()
	l := c.leader()
	if l == nil {
		c.t.Fatal("no leader")
	}
	for i, cmd := range list {
		cmd.Cluster = testCluster
		if _, ok := l.n.Replica().Propose(cmd.Append(nil), ^uint64(0)); !ok {
			c.t.Fatal("the leader takes no more")
		}
		if i%256 == 255 {
			l.n.Poll()
			l.ep.Wake()
			c.run(5 * time.Millisecond)
		}
	}
	l.n.Poll()
	l.ep.Wake()
	c.run(5 * time.Millisecond) // those that gather have left
	upTo := l.n.Replica().Status().Last
	c.await(10*time.Second, "not applied",
		func() bool { return l.n.Replica().Status().Applied >= upTo })
}

// write makes all sessions write that were just opened.
func (c *cluster) write() {
	c.t.Helper()
	last := c.leader().n.Replica().Status().Last
	var list []kv.Command
	for i := range min(last, kv.MaxSessions+100) { // the client's repetitions are in between
		w := putCommand("other", "x")
		w.Session, w.Seq = last-i, 1
		list = append(list, w)
	}
	c.propose(list...)
}

// age makes all sessions write that were just opened, then lets the log's time pass: of the
// full table, the oldest session goes with the next open.
func (c *cluster) age() {
	c.t.Helper()
	c.write()
	var list []kv.Command
	for range kv.SessionIdle / time.Minute {
		list = append(list, kv.Command{Op: kv.Clock, Seq: 60_000})
	}
	c.propose(append(list, kv.Command{Op: kv.Open})...)
}

// TestSessionLostWithAnswer: a write is applied and its answer lost. However many sessions are
// opened, the repetition gets the answer; when the session has expired for its age the outcome
// is unknown, and the client says so. Its only session has gone then, and it opens another one.
func TestSessionLostWithAnswer(t *testing.T) {
	for _, aged := range []bool{false, true} {
		sh := small
		sh.sessions = 1
		c, u := calm(t, sh)
		if r := c.put(u, "first"); r.Err != nil {
			t.Fatal(r.Err)
		}
		var servers []int
		for _, s := range c.servers {
			servers = append(servers, s.machine)
		}
		if err := c.net.Cut(servers, []int{u.machine}); err != nil {
			t.Fatal(err)
		}
		var end client.Result
		u.do(putCommand("k", "second"), 10*time.Second, func(r client.Result) { end = r })
		store := c.leader().n.Replica().Store()
		c.await(time.Second, "not applied", func() bool {
			v, _ := store.Get(putCommand("k", "").Key)
			return v.String() == "second"
		})
		var list []kv.Command
		for range kv.MaxSessions {
			list = append(list, kv.Command{Op: kv.Open})
		}
		c.propose(list...)
		if aged {
			c.age()
		}
		c.net.Heal()
		c.await(11*time.Second, "no end", func() bool { return !u.busy })
		switch {
		case !aged && end.Err != nil:
			t.Errorf("a session in use was evicted by opens: %v", end.Err)
		case aged && (!errors.Is(end.Err, client.ErrUnknown) || errors.Is(end.Err, kv.ErrExpired)):
			t.Errorf("the write was applied, and its outcome is %v", end.Err)
		}
		if r := c.put(u, "third"); r.Err != nil { // also in a new session
			t.Error(r.Err)
		}
	}
}
