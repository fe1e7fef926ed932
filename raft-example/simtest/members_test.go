package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// swap puts a new member in the place of one, and ends that one.
func (c *cluster) swap(old *server) {
	c.t.Helper()
	fresh := c.machine()
	fresh.start()
	change := func(what replica.Change, s *server, done bool) {
		c.t.Helper()
		next := c.net.Now()
		c.await(10*time.Second, "no change of membership", func() bool {
			l := c.leader()
			if l == nil {
				return false
			}
			if _, is := l.n.Replica().Member(s.id); is == done {
				return true
			}
			if c.net.Now() >= next {
				next = c.net.Now().Add(100 * time.Millisecond)
				_ = l.n.Replica().Change(what, s.id, s.addr, ^uint64(0))
				l.n.Poll()
				l.ep.Wake()
			}
			return false
		})
	}
	change(replica.Add, fresh, true)
	change(replica.Remove, old, false)
	old.gone = true
	old.crash()
}

// TestAllMembersReplaced: a client that is idle while every member is replaced finds the
// cluster again.
func TestAllMembersReplaced(t *testing.T) {
	c, u := calm(t, small)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, s := range append([]*server(nil), c.servers...) {
		c.swap(s)
		c.run(time.Second)
	}
	if r := c.put(u, "after"); r.Err != nil {
		t.Errorf("the cluster works, and the client has lost it: %v", r.Err)
	}
}
