package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// swap puts a new member in the place of one, and ends that one.
func (c *cluster) swap(old *server) {
	c.t.Helper()
	c.exchange(old)
	old.gone = true
	old.crash()
}

// exchange puts a new member in the place of one, which still runs.
func (c *cluster) exchange(old *server) {
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

// TestLeftMembersTell: all members were replaced since a client heard of them. Those that left
// still run, or all but one, and know others: whenever a client asks, and whichever it asks first,
// it finds the cluster.
func TestLeftMembersTell(t *testing.T) {
	sh := small
	sh.refresh = time.Hour
	for dead := range 4 { // 3: none
		c, _ := calm(t, sh)
		old := append([]*server(nil), c.servers...)
		var users []*user
		for range 16 {
			u := c.user(1)
			if r := c.put(u, "before"); r.Err != nil {
				t.Fatal(r.Err)
			}
			users = append(users, u)
		}
		for _, s := range old {
			c.exchange(s)
			c.run(100 * time.Millisecond)
		}
		if dead < len(old) {
			old[dead].crash()
		}
		for i, u := range users {
			u.do(putCommand("k", "after"), 5*time.Second, func(r client.Result) {
				if r.Err != nil {
					t.Errorf("%d is dead, client %d: %v", dead, i, r.Err)
				}
			})
			c.run(3100 * time.Microsecond)
		}
		for _, u := range users {
			c.await(6*time.Second, "no end", func() bool { return !u.busy })
		}
	}
}

// TestGuestLeads: a replica that was away while a member came hears from it, as the leader that it
// does not know yet: the others vouch for its address.
func TestGuestLeads(t *testing.T) {
	c, u := calm(t, small)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	var away *server
	for _, s := range c.servers {
		if s != c.leader() {
			away = s
		}
	}
	away.crash()
	guest := c.machine()
	guest.start()
	c.changeTo(replica.Member{Change: replica.Add, ID: guest.id, Addr: guest.addr})
	c.await(10*time.Second, "the new member does not lead", func() bool {
		if l := c.leader(); l != nil && l != guest {
			l.n.Replica().Transfer(guest.id)
			l.n.Poll()
			l.ep.Wake()
		}
		return c.leader() == guest
	})
	if r := c.put(u, "after"); r.Err != nil {
		t.Fatal(r.Err)
	}
	away.start()
	if _, known := away.n.Replica().Member(guest.id); known {
		t.Fatal("it knows the new member already")
	}
	c.await(10*time.Second, "it does not hear from the new member", func() bool {
		return away.n.Replica().Status().Applied >= guest.n.Replica().Status().Applied
	})
	if c.leader() != guest {
		t.Error("another replica leads meanwhile")
	}
}

// changeTo has the leader change a member, and waits until all that run know it.
func (c *cluster) changeTo(m replica.Member) {
	c.t.Helper()
	l := c.leader()
	if err := l.n.Replica().Change(m.Change, m.ID, m.Addr, ^uint64(0)); err != nil {
		c.t.Fatal(err)
	}
	l.n.Poll()
	l.ep.Wake()
	c.await(10*time.Second, "not added", func() bool {
		for _, s := range c.servers {
			if !s.down && s.n.Replica().Status().Members[m.ID] == "" {
				return false
			}
		}
		return true
	})
}
