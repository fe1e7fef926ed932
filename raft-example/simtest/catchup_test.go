package simtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// far is the time to the switch on a path whose round trips take farTrip.
const (
	far     = 4 * time.Millisecond
	farTrip = 4 * far
)

// TestCatchUp: a member that was cut off lacks a part of the log. It has all of it after some round
// trips, and its leader has sent a few times as many bytes at most: without losses hardly more than
// it lacked. So it is with packets that overtake each other.
func TestCatchUp(t *testing.T) {
	const jitter = 8 * time.Millisecond
	for _, test := range []struct {
		bytes  int
		faults sim.Faults
		trips  int
		times  float64
	}{
		{150_000, sim.Faults{}, 15, 1.2},
		{150_000, sim.Faults{Loss: 0.1}, 80, 3},
		{150_000, sim.Faults{Loss: 0.3}, 400, 6},
		{150_000, sim.Faults{Jitter: jitter}, 50, 3},
		{150_000, sim.Faults{Jitter: jitter, Loss: 0.1}, 150, 4},
		{150_000, sim.Faults{Jitter: jitter, Loss: 0.3}, 500, 8},
		{4_000_000, sim.Faults{}, 100, 1.1},
		{4_000_000, sim.Faults{Loss: 0.1}, 800, 2.5},
		{4_000_000, sim.Faults{Loss: 0.3}, 4000, 4},
	} {
		t.Run(fmt.Sprintf("%d %v %v", test.bytes, test.faults.Loss, test.faults.Jitter),
			func(t *testing.T) {
				c, s, lacks := behind(t, test.bytes, false)
				_ = c.net.SetFaults(test.faults)
				trips, times := c.catchUp(s, lacks)
				if trips > test.trips || times > test.times {
					t.Errorf("it took %d round trips, and %.2f times the bytes; want at most %d and %v",
						trips, times, test.trips, test.times)
				}
			})
	}
}

// TestKilledBehind: a member with a disk is killed while it catches up, and catches up when it is
// back.
func TestKilledBehind(t *testing.T) {
	c, s, lacks := behind(t, 1_000_000, true)
	at := s.n.Replica().Applied()
	c.net.Heal()
	c.await(time.Second, "it gets nothing", func() bool { return s.n.Replica().Applied() > at })
	c.run(farTrip / 2) // more is on its way
	s.crash()
	c.run(3 * farTrip)
	s.start()
	if trips, times := c.catchUp(s, lacks); trips > 100 || times > 1.2 {
		t.Errorf("it took %d round trips, and %.2f times the bytes", trips, times)
	}
}

// behind returns a cluster of which a member was cut off for so many bytes of the log.
func behind(t *testing.T, bytes int, disk bool) (c *cluster, s *server, lacks int) {
	t.Helper()
	t.Cleanup(seedRaft(1))
	sh := shape{replicas: 3, tick: 20 * time.Millisecond, keep: 1 << 20, every: 1 << 20,
		durable: disk, disk: time.Millisecond}
	c = newCluster(t, rand.New(rand.NewPCG(1, 1)),
		sim.Config{Seed: 1, Checksum: true, PropDelay: far, LinkBitsPerSec: 1e9}, sh)
	t.Cleanup(c.close)
	c.await(10*time.Second, "no leader", func() bool { return c.leader() != nil })
	l := c.leader()
	c.run(time.Second)
	var others []int
	for _, o := range c.servers {
		if others = append(others, o.machine); o != l {
			s = o
		}
	}
	_ = c.net.Partition([]int{s.machine}, others)
	value := strings.Repeat("v", kv.MaxValue)
	var list []kv.Command
	for i := 0; lacks < bytes; i++ {
		cmd := putCommand(fmt.Sprint("key", i), value)
		cmd.Session, cmd.Seq = 1, 1 // it changes nothing, but is an entry
		list = append(list, cmd)
		if lacks += len(cmd.Append(nil)); len(list) == 1000 {
			c.propose(list...)
			list = nil
		}
	}
	c.propose(list...)
	c.run(3 * time.Second)
	if c.leader() != l {
		t.Fatal("another leader")
	}
	return c, s, lacks
}

// catchUp ends the cut, and returns in how many round trips a member gets all that it lacks, and
// how many times as many bytes its leader has sent.
func (c *cluster) catchUp(s *server, lacks int) (trips int, times float64) {
	c.t.Helper()
	sent := func() uint64 {
		p, err := c.net.NIC(c.leader().machine)
		if err != nil {
			c.t.Fatal(err)
		}
		return p.Bytes
	}
	upTo, before, from := c.leader().n.Replica().Applied(), sent(), c.net.Now()
	c.net.Heal()
	c.await(600*time.Second, "the member is behind", func() bool {
		return s.n.Replica().Applied() >= upTo
	})
	trips, times = int(c.net.Now().Sub(from)/farTrip), float64(sent()-before)/float64(lacks)
	c.t.Logf("%d bytes: %d round trips, %.2f times as many sent", lacks, trips, times)
	return trips, times
}
