package simtest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// TestWipedDisk: all replicas stop, one loses its disk, all start again: the others know that it
// is not the one that it was, and it ends and says why. The rest goes on.
func TestWipedDisk(t *testing.T) {
	c, u := calm(t, small)
	if r := c.put(u, "before"); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.run(time.Second) // all have heard of all
	for _, s := range c.servers {
		s.crash()
	}
	var why error
	victim := c.servers[1]
	victim.disk, victim.log = nil, victim.log+2
	victim.ends = func(err error) { why = err }
	for _, s := range c.servers {
		s.start()
	}
	c.await(10*time.Second, "the replica without its disk still runs",
		func() bool { return why != nil })
	if !errors.Is(why, node.ErrForeignLog) {
		t.Errorf("it ended with %v", why)
	}
	if r := c.put(u, "after"); r.Err != nil {
		t.Error(r.Err)
	}
}

// TestMembersMeet: within two election timeouts all disks know all members, also those that have
// nothing to say to each other: a vote that comes first from one that is not known would be lost.
func TestMembersMeet(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(t, rand.New(rand.NewPCG(seed, 1)), sim.Config{Seed: seed, Checksum: true,
			PropDelay: 10 * time.Microsecond}, small)
		c.run(2 * 10 * tick)
		for _, s := range c.servers {
			if len(s.disk.peers) != 2 {
				t.Errorf("seed %d: the disk of replica %d knows %v", seed, s.id, s.disk.peers)
			}
		}
		c.close()
	}
}
