package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestAwayWhileAllChange: a client is stopped for half a second while all members are replaced by
// joint consensus. Two of the old ones have ended, and the third, which was cut off, has heard of
// nothing: it answers that it knows no leader. The client finds the cluster by its configuration.
func TestAwayWhileAllChange(t *testing.T) {
	c, _ := calm(t, small)
	olds := append([]*server(nil), c.servers...)
	fresh := []*server{c.machine(), c.machine(), c.machine()}
	u := c.user(1) // it has the addresses of all six, and is told that three are members
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.run(time.Second)
	leader := c.leader()
	var away *server
	var others []int
	for _, s := range olds {
		if s != leader && away == nil {
			away = s
		} else {
			others = append(others, s.machine)
		}
	}
	u.ep.Pause()
	var list []replica.Member
	for i, s := range fresh {
		s.start()
		others = append(others, s.machine)
		list = append(list, replica.Member{Change: replica.Add, ID: s.id, Addr: s.addr},
			replica.Member{Change: replica.Remove, ID: olds[i].id})
	}
	if err := c.net.Cut(others, []int{away.machine}); err != nil {
		t.Fatal(err)
	}
	if err := leader.n.Replica().Reconfigure(list, ^uint64(0)); err != nil {
		t.Fatal(err)
	}
	leader.n.Poll()
	leader.ep.Wake()
	c.run(500 * time.Millisecond)
	for _, s := range fresh {
		if st := s.n.Replica().Status(); len(st.Members) != 3 || len(st.Outgoing) > 0 {
			t.Fatalf("the change is not complete: %+v", st)
		}
	}
	for _, s := range olds {
		if s.gone = true; s != away {
			s.crash()
		}
	}
	c.net.Heal()
	u.ep.Resume()
	u.do(putCommand("k", "after"), 10*time.Second, func(r client.Result) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	})
	c.await(11*time.Second, "no end", func() bool { return !u.busy })
}
