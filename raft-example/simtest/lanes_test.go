package simtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// patient is a small cluster whose clients repeat nothing, and have so many sessions.
func patient(sessions int) shape {
	sh := small
	sh.attempt, sh.sessions = 5*time.Second, sessions
	return sh
}

// many begins n PUTs at once, and waits until all have ended.
func (c *cluster) many(u *user, n int) (failed int, last error) {
	c.t.Helper()
	ended := 0
	for i := range n {
		cmd := putCommand(fmt.Sprint("k", i), "x")
		u.cl.Do(cmd, c.net.Now().Add(10*time.Second), func(r client.Result) {
			ended++
			if r.Err != nil {
				failed, last = failed+1, r.Err
			}
		})
	}
	u.ep.Wake()
	c.await(11*time.Second, "some have not ended", func() bool { return ended == n })
	return failed, last
}

// TestManyWrites: a client that has more writes to do than a store has sessions does them all, in
// a few sessions.
func TestManyWrites(t *testing.T) {
	notRaced(t)
	c, u := calm(t, patient(0))
	n := kv.MaxSessions + kv.MaxSessions/8
	if failed, last := c.many(u, n); failed > 0 {
		t.Errorf("%d of %d writes failed: %v", failed, n, last)
	}
	if s := c.leader().n.Replica().Store().Sessions(); s > kv.MaxSessions/16 {
		t.Errorf("one client has %d sessions", s)
	}
}

// TestCrowdedStore: others have all sessions of a store but one. A client that has this one does
// all of its writes in it, and asks for more now and then only.
func TestCrowdedStore(t *testing.T) {
	notRaced(t)
	c, u := calm(t, patient(0))
	var list []kv.Command
	for range kv.MaxSessions - 1 {
		list = append(list, kv.Command{Op: kv.Open})
	}
	c.propose(list...)
	if r := c.put(u, "first"); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.write()
	rep := c.leader().n.Replica()
	before := rep.Status().Last
	const n = 200
	if failed, last := c.many(u, n); failed > 0 {
		t.Errorf("%d of %d writes failed: %v", failed, n, last)
	}
	// All but one ask for a session at first, before they hear that there is none.
	if more := rep.Status().Last - before; more > 2*n {
		t.Errorf("%d entries of the log for %d writes", more, n)
	}
}

// TestWaitingWrites: writes that wait for a session end at their deadline, each at its own, or with
// their client. The errors say so, and that nothing was applied.
func TestWaitingWrites(t *testing.T) {
	c, u := calm(t, patient(2))
	var servers []int
	for _, s := range c.servers {
		servers = append(servers, s.machine)
	}
	if err := c.net.Cut(servers, []int{u.machine}); err != nil {
		t.Fatal(err)
	}
	const n = 10
	var ends [n]error
	for i := range n {
		wait := time.Duration(1+i%4) * time.Second
		if i < 2 {
			wait = time.Minute // these have the sessions
		}
		u.cl.Do(putCommand("k", "x"), c.net.Now().Add(wait), func(r client.Result) { ends[i] = r.Err })
	}
	u.ep.Wake()
	check := func(waited int, want error) {
		t.Helper()
		for i, err := range ends {
			switch ended := i >= 2 && i%4 <= waited; {
			case !ended && err != nil && !errors.Is(err, want): // Close ends what is to be repeated
				t.Errorf("after %d s write %d has ended: %v", waited+1, i, err)
			case ended && (err == nil || errors.Is(err, client.ErrUnknown)):
				t.Errorf("after %d s write %d: %v", waited+1, i, err)
			case ended && i%4 == waited && !errors.Is(err, want):
				t.Errorf("after %d s write %d: %v, want %v", waited+1, i, err, want)
			}
		}
	}
	c.run(500 * time.Millisecond)
	for waited := range 3 {
		c.run(time.Second)
		check(waited, client.ErrSessions)
		check(waited, client.ErrDeadline)
	}
	u.cl.Close()
	check(3, client.ErrClosed)
}
