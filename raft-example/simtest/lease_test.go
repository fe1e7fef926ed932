package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// split is a leader with a lease and one client on one side of a cut, and the rest with another
// client on the other.
type split struct {
	*cluster
	reader, writer *user
	until          sim.Time
	reads, writes  int // that had an answer after the cut
}

// TestLeaseSplit: the old leader goes on serving reads under its lease, the new one takes writes:
// no read is stale.
func TestLeaseSplit(t *testing.T) {
	testSplits(t, tick, func(s *split, l, f, g *server) { s.apart(l, f, g) })
}

// TestLeaseRestart: one follower hears nothing of the leader for a while and asks for votes. The
// other one answers the leader, ends, starts again and is asked at once. Ticks are long beside
// the time that a new session takes.
func TestLeaseRestart(t *testing.T) {
	testSplits(t, 8*tick, func(s *split, l, f, g *server) {
		s.apart(l, f)
		s.run(20*s.tick + s.below(20*s.tick))
		g.crash()
		s.apart(l, g)
		g.start()
	})
}

func testSplits(t *testing.T, tick time.Duration, cut func(s *split, l, f, g *server)) {
	count := 60
	if testing.Short() {
		count = 10
	}
	if raced {
		count = 2
	}
	reads, writes := 0, 0
	for seed := range count {
		s := runSplit(t, uint64(seed), tick, cut)
		reads, writes = reads+s.reads, writes+s.writes
	}
	t.Logf("%d reads and %d writes after the cuts", reads, writes)
	if reads < 10*count || writes < count {
		t.Errorf("%d reads and %d writes after %d cuts", reads, writes, count)
	}
}

func runSplit(
	t *testing.T, seed uint64, tick time.Duration, cut func(s *split, l, f, g *server),
) *split {
	sh := small
	sh.tick, sh.lease, sh.disk, sh.attempt = tick, 9*tick, 100*time.Microsecond, 3*time.Millisecond
	cfg := sim.Config{Seed: seed + 1, Checksum: true, PropDelay: 5 * time.Microsecond}
	s := &split{cluster: newCluster(t, rand.New(rand.NewPCG(seed, 7)), cfg, sh)}
	defer s.close()
	s.reader, s.writer = s.user(1), s.user(1)
	s.await(10*time.Second, "no leader", func() bool { return s.leader() != nil })
	s.put(s.writer, "first")
	s.put(s.reader, "second") // now it knows the leader
	l := s.leader()
	var rest []*server
	for _, other := range s.servers {
		if other != l {
			rest = append(rest, other)
			s.between(s.reader.machine, other.machine)
		}
	}
	s.between(s.writer.machine, l.machine)
	s.until = s.net.Now().Add(200 * tick)
	s.read()
	s.run(s.below(8 * tick))
	cut(s, l, rest[0], rest[1])
	at := s.net.Now()
	s.until = at.Add(50 * tick)
	s.reads, s.writes = 0, 0
	s.write()
	s.run(60 * tick)
	s.net.Heal()
	s.await(10*time.Second, "requests have no end",
		func() bool { return !s.reader.busy && !s.writer.busy })
	if err := s.hist.Check(time.Minute); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	return s
}

func (c *cluster) between(a, b int) {
	_ = c.net.Cut([]int{a}, []int{b})
	_ = c.net.Cut([]int{b}, []int{a})
}

// apart cuts a server off from others.
func (s *split) apart(l *server, others ...*server) {
	for _, o := range others {
		s.between(l.machine, o.machine)
	}
}

// read reads all the time.
func (s *split) read() {
	cmd := kv.Command{Op: kv.Get, Key: putCommand("k", "").Key}
	s.reader.do(cmd, 4*s.tick, func(r client.Result) {
		if r.Err == nil {
			s.reads++
		}
		s.again(s.read)
	})
}

// write writes all the time, another value each time.
func (s *split) write() {
	s.writer.count++
	s.writer.do(putCommand("k", fmt.Sprint(s.writer.count)), 80*s.tick, func(r client.Result) {
		if r.Err == nil {
			s.writes++
		}
		s.again(s.write)
	})
}

func (s *split) again(f func()) {
	s.net.After(s.tick/10, func() {
		if s.net.Now() < s.until {
			f()
		}
	})
}
