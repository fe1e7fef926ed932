package simtest

import (
	"fmt"
	"testing"
	"time"
)

// TestHungDisk: the leader's disk hangs for half a minute, default ticks. Writes go on, the leader
// becomes a follower, and when the disk is back it has all that the others have. It stays if its
// disk hangs for less than an election timeout, or if all disks do.
func TestHungDisk(t *testing.T) {
	notRaced(t)
	sh := small
	sh.tick = 20 * time.Millisecond
	c, u := calm(t, sh)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	old := c.leader()
	election := 10 * sh.tick
	old.disk.hang(election - sh.tick)
	if r := c.put(u, "short"); r.Err != nil || c.leader() != old {
		t.Errorf("after less than an election timeout: %v, leader %v", r.Err, c.leader() == old)
	}
	old.disk.hang(30 * time.Second)
	var worst time.Duration
	began := c.net.Now()
	for i := 0; c.net.Now() < began.Add(29*time.Second); i++ {
		at := c.net.Now()
		if r := c.put(u, fmt.Sprint(i)); r.Err != nil {
			t.Fatal(i, r.Err)
		}
		worst = max(worst, c.net.Now().Sub(at))
		c.run(50 * time.Millisecond)
	}
	if worst > 2*election+300*time.Millisecond {
		t.Errorf("a write took %v while a disk hung", worst)
	}
	if c.leader() == old {
		t.Error("it leads with a disk that hangs")
	}
	next := c.leader()
	c.await(10*time.Second, "the disk is back, and its replica is not", func() bool {
		return old.n.Replica().Status().Last == next.n.Replica().Status().Last
	})
	for _, s := range c.servers {
		s.disk.hang(10 * election)
	}
	was := next.n.Replica().Status().Term
	if r := c.put(u, "slow"); r.Err != nil {
		t.Error(r.Err)
	}
	if st := next.n.Replica().Status(); st.State != "StateLeader" || st.Term != was {
		t.Errorf("all disks hung alike, and another one leads: %+v", st)
	}
}
