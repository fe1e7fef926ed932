package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestLeftFirst: a member that is to go hears first that it has gone, and has the longest log. The
// others need its vote to go on, when the leader fails: it must give it, as it cannot be elected
// itself. What each one hears is made so by cuts, whatever the times of packets.
func TestLeftFirst(t *testing.T) {
	c, u := calm(t, small)
	old := c.leader()
	var going []*server // old voters, of whom the first hears that it has gone
	for _, s := range c.servers {
		if s != old {
			going = append(going, s)
		}
	}
	fresh := []*server{c.machine(), c.machine()}
	var list []replica.Member
	for _, s := range fresh {
		s.start()
		list = append(list, replica.Member{Change: replica.Add, ID: s.id, Addr: s.addr})
	}
	for _, s := range going {
		list = append(list, replica.Member{Change: replica.Remove, ID: s.id})
	}
	status := func(s *server) replica.Status { return s.n.Replica().Status() }
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := c.net.Now().Add(2 * time.Second); !ok(); c.run(5 * time.Microsecond) {
			if c.net.Now() >= end {
				for _, s := range c.servers {
					t.Logf("%+v", status(s))
				}
				t.Fatal("it did not come so far: ", what)
			}
		}
	}
	cut := func(to ...*server) { // off from what the leader says
		t.Helper()
		c.net.Heal()
		for _, s := range to {
			if err := c.net.Cut([]int{old.machine}, []int{s.machine}); err != nil {
				t.Fatal(err)
			}
		}
	}
	tell := func() { old.n.Poll(); old.ep.Wake() }
	isJoint := func(s *server) bool { return len(status(s).Outgoing) > 0 }
	gone, late, heir := going[0], going[1], fresh[0]
	cut(fresh...)
	if err := old.n.Replica().Reconfigure(list, ^uint64(0)); err != nil {
		t.Fatal(err)
	}
	tell()
	wait("the others know of the joint configuration",
		func() bool { return isJoint(gone) && isJoint(late) })
	joint := status(gone).Applied
	wait("the leader wants to leave it", func() bool { return status(gone).Last > joint })
	cut(fresh[1])
	wait("a new member has that in its log", func() bool { return status(heir).Last > joint })
	// Its answer, with which the leader knows that this is committed, is on its way.
	cut(append(fresh, late)...)
	more := putCommand("other", "x")
	if _, ok := old.n.Replica().Propose(more.Append(nil), ^uint64(0)); !ok {
		t.Fatal("the leader takes no more")
	}
	tell()
	wait("a member knows that it has gone, and its log is the longest",
		func() bool { return !isJoint(gone) && status(gone).Last > status(heir).Last })
	if !isJoint(heir) || !isJoint(late) {
		t.Fatalf("they know, too: %+v, %+v", status(heir), status(late))
	}
	old.gone = true
	old.crash()
	c.net.Heal()
	c.await(10*time.Second, "no leader without the vote of the one that has gone",
		func() bool { l := c.leader(); return l == fresh[0] || l == fresh[1] })
	if r := c.put(u, "after"); r.Err != nil {
		t.Error(r.Err)
	}
}
