package simtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// replaceOthers ends a member, and then replaces all others one by one. It returns who is away.
func (c *cluster) replaceOthers(u *user) (away *server) {
	c.t.Helper()
	if r := c.put(u, "before"); r.Err != nil {
		c.t.Fatal(r.Err)
	}
	away = c.servers[0]
	away.crash()
	for _, s := range append([]*server(nil), c.servers[1:]...) {
		c.swap(s)
		c.run(time.Second) // the client hears of it
	}
	if r := c.put(u, "after"); r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return away
}

// TestAwayWhileOthersChange: a member comes back when all that it knows were replaced. It takes the
// others for members if they have the members' role, or if the operator says where members may be;
// with addresses alone they stay strangers, until it is started anew with such a word.
func TestAwayWhileOthersChange(t *testing.T) {
	for name, change := range map[string]func(*shape){
		"role":    func(sh *shape) { sh.role, sh.psk = true, [][]byte{bytes.Repeat([]byte{7}, 32)} },
		"found":   func(sh *shape) { sh.found = true },
		"nothing": func(*shape) {},
	} {
		t.Run(name, func(t *testing.T) {
			sh := small
			change(&sh)
			c, u := calm(t, sh)
			away := c.replaceOthers(u)
			follows := func() bool {
				return away.n.Replica().Applied() >= c.leader().n.Replica().Applied()
			}
			away.start()
			if name == "nothing" {
				c.run(5 * time.Second)
				if follows() {
					t.Fatal("it takes anybody for a member")
				}
				away.crash()
				c.found = true
				away.start()
			}
			c.await(5*time.Second, "it takes the others for strangers", follows)
		})
	}
}

// TestImpostor: a replica that nobody has added passes for a member, with a list of members and a
// log of its own, when a member comes back that knows nobody any more. The operator's word leads to
// the members all the same, and without it the member stays alone.
func TestImpostor(t *testing.T) {
	for _, found := range []bool{true, false} {
		sh := small
		sh.found = found
		c, u := calm(t, sh)
		away := c.replaceOthers(u)
		impostor := c.machine()
		impostor.gone = true // for the operator it is none
		impostor.boot = replica.Boot(map[uint64]string{away.id: away.addr, impostor.id: impostor.addr})
		impostor.boot.Snapshot.Metadata.Index = new(uint64(1_000_000))
		impostor.boot.Snapshot.Metadata.Term = new(uint64(1_000))
		impostor.start()
		away.start()
		c.run(5 * time.Second)
		st := away.n.Replica().Status()
		if st.Applied >= 1_000_000 || st.Term >= 1_000 || (st.Leader != 0) != found {
			t.Errorf("found %v: %+v", found, st)
		}
	}
}

// TestRemovedIsStranger: a member that was removed while it was down starts again, at an address
// that the operator still names, or was cut off, and its sessions live. The others take nothing of
// it any more, and tell it that it is none of them, also if it has the members' role still.
func TestRemovedIsStranger(t *testing.T) {
	for name, change := range map[string]func(*shape){
		"found": func(sh *shape) { sh.found = true },
		"role":  func(sh *shape) { sh.role, sh.psk = true, [][]byte{bytes.Repeat([]byte{7}, 32)} },
	} {
		for _, down := range []bool{true, false} {
			sh := small
			change(&sh)
			c, u := calm(t, sh)
			old := c.servers[c.leader().id%3]
			if down {
				old.crash()
			} else {
				c.isolate(old)
			}
			c.exchange(old)
			if down {
				old.start()
			} else {
				c.net.Heal()
			}
			c.run(2 * time.Second)
			var st replica.Status
			err := json.Unmarshal(c.ask(u, old, node.TypeStatus, nil), &st)
			if err != nil || !st.Removed {
				t.Errorf("%s, was down %v: %+v, %v", name, down, st, err)
			}
		}
	}
}

// isolate cuts a server off from all others, and from clients.
func (c *cluster) isolate(s *server) {
	c.t.Helper()
	var others []int
	for i := range c.nextSim + 1 { // and the one that comes next
		if i != s.machine {
			others = append(others, i)
		}
	}
	if err := errors.Join(c.net.Cut(others, []int{s.machine}),
		c.net.Cut([]int{s.machine}, others)); err != nil {
		c.t.Fatal(err)
	}
}

// addMeanwhile has the leader add a member, alone or jointly for one that goes, and fail when
// others know that this is committed. It returns who has heard of it by its log alone.
func addMeanwhile(c *cluster, joint bool) (other *server) {
	c.t.Helper()
	l := c.leader()
	olds := slices.DeleteFunc(slices.Clone(c.servers), func(s *server) bool { return s == l })
	other = olds[0]
	fresh := c.machine()
	fresh.start()
	list := []replica.Member{{Change: replica.Add, ID: fresh.id, Addr: fresh.addr}}
	var err error
	if rep := l.n.Replica(); joint {
		list = append(list, replica.Member{Change: replica.Remove, ID: olds[1].id})
		err = rep.Reconfigure(list, ^uint64(0))
	} else {
		err = rep.Change(replica.Add, fresh.id, fresh.addr, ^uint64(0))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	l.n.Poll()
	l.ep.Wake()
	for range 100_000 {
		if addrs, _ := other.n.Replica().Coming(); len(addrs) > 0 {
			break
		}
		c.run(time.Microsecond)
	}
	if err := c.net.Cut([]int{l.machine, olds[len(olds)-1].machine, fresh.machine},
		[]int{other.machine}); err != nil {
		c.t.Fatal(err)
	}
	c.await(time.Second, "the new one does not know that it is a member", func() bool {
		st := fresh.n.Replica().Status()
		return st.Members[fresh.id] != "" && len(st.Outgoing) == 0
	})
	l.crash()
	for _, s := range olds[1:] {
		s.crash()
	}
	return other
}

// TestComingMemberElected: the leader fails when it has added a member, before the other one hears
// that this is committed. Only the vote of that one makes the new one lead, which it knows by a
// change in its log that is not applied.
func TestComingMemberElected(t *testing.T) {
	for _, joint := range []bool{false, true} {
		sh := small
		sh.durable = false
		if sh.replicas = 2; joint {
			sh.replicas = 3
		}
		c, _ := calm(t, sh)
		other := addMeanwhile(c, joint)
		if other.n.Replica().IsAddress(c.servers[sh.replicas].addr) {
			t.Fatal("it has heard already that this is committed")
		}
		c.net.Heal()
		c.await(5*time.Second, "nobody leads", func() bool { return c.leader() != nil })
	}
}

// TestOtherClusterAtOldAddress: members of a cluster are gone, and at the address of one of them
// runs a replica of another cluster, with the same id and a log of its own that has more. A member
// with an old folder takes no word of it, and keeps what it has.
func TestOtherClusterAtOldAddress(t *testing.T) {
	sh := small
	c, u := calm(t, sh)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	away, other := c.servers[0], c.servers[1]
	others := []*server{other, c.machine(), c.machine()}
	boot := replica.Boot(map[uint64]string{away.id: away.addr, others[1].id: others[1].addr,
		others[2].id: others[2].addr}) // it was removed there
	boot.Snapshot.Metadata.Index = new(uint64(1_000_000))
	boot.Snapshot.Metadata.Term = new(uint64(1_000))
	for _, s := range c.servers {
		s.crash()
		s.gone, s.ends = true, func(error) {}
	}
	for _, s := range others {
		s.disk, s.log, s.boot = nil, s.log+1, boot
		s.start()
	}
	c.run(time.Second)
	away.start()
	c.run(5 * time.Second)
	if st := away.n.Replica().Status(); st.Applied >= 1_000_000 || st.Leader != 0 {
		t.Errorf("%+v", st)
	}
}
