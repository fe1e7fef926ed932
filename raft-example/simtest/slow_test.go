package simtest

import (
	"fmt"
	"testing"
	"time"
)

// TestSlowDisks: every write to a disk takes 300 ms, an election timeout is 200 to 400 ms. A
// leader is elected all the same, stays, and serves; and a snapshot of that time changes nothing.
func TestSlowDisks(t *testing.T) {
	sh := shape{replicas: 3, durable: true, tick: 20 * time.Millisecond, keep: 10, every: 20,
		disk: 300 * time.Millisecond, steady: true}
	c, u := calm(t, sh)
	terms := func() (sum uint64) {
		for _, s := range c.servers {
			sum += s.n.Replica().Status().Elected
		}
		return sum
	}
	before := terms()
	if before > 3 {
		t.Errorf("%d elections before the first leader was seen", before)
	}
	for i := range 40 {
		if r := c.put(u, fmt.Sprint(i)); r.Err != nil {
			t.Fatal(i, r.Err)
		}
	}
	c.run(10 * time.Second)
	if after := terms(); after != before {
		t.Errorf("%d more elections while nothing failed", after-before)
	}
	if st := c.leader().n.Replica().Status(); st.First < 20 {
		t.Errorf("no compaction: %+v", st)
	}
	old := c.leader()
	old.crash()
	c.await(5*time.Second, "no other leader", func() bool {
		l := c.leader()
		return l != nil && l != old
	})
	if r := c.put(u, "after"); r.Err != nil {
		t.Error(r.Err)
	}
}
