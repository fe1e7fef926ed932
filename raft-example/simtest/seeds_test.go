package simtest

import (
	crand "crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/sim"
)

var (
	seedFlag = flag.Int64("seed", -1, "run TestSeeds with this seed only")
	fromFlag = flag.Uint64("from", 0, "with -for, the first seed")
	forFlag  = flag.Duration("for", 0, "run TestSeeds with seeds from -from on for so long")
	longFlag = flag.Bool("long", false, "with -seed or -for, the longer kind of run")
)

// raced is whether the race detector is on. It learns little from simulations, which run in one
// goroutine, and makes them ten times as long: so they do little then. make test has all of it.
var raced bool

// notRaced skips a long simulation under the race detector.
func notRaced(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("long under the race detector, in one goroutine")
	}
}

// totals counts the work of all runs together: a test that does not do what it says is no test.
type totals struct {
	ops, unknown, elections, torn, snapshots, changes, kills, cuts, jumps, pauses int
	leased, followed, joint, hangs                                                int
}

// TestSeeds runs one random cluster per seed; see the package comment.
func TestSeeds(t *testing.T) {
	var sum totals
	switch {
	case *seedFlag >= 0:
		hash := runSeed(t, uint64(*seedFlag), *longFlag, &sum)
		t.Logf("%+v, trace hash %x", sum, hash)
		return
	case *forFlag > 0:
		manySeeds(t)
		return
	}
	count := 200
	if testing.Short() {
		count = 40
	}
	if raced {
		count = 10
	}
	for seed := range count {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runSeed(t, uint64(seed), false, &sum)
			if t.Failed() {
				t.Logf("repeat with: go test ./simtest -run TestSeeds -seed=%d -v", seed)
			}
		})
	}
	t.Logf("%d seeds: %+v", count, sum)
	if raced {
		return
	}
	if sum.ops < 100*count || sum.elections < count || sum.torn == 0 || sum.snapshots == 0 ||
		sum.changes == 0 || sum.kills == 0 || sum.leased < count ||
		sum.followed < count || sum.joint == 0 ||
		sum.cuts == 0 || sum.jumps == 0 || sum.pauses == 0 || sum.hangs == 0 || sum.unknown == 0 {
		t.Errorf("the runs did too little: %+v", sum)
	}
}

// manySeeds runs one seed after the other until the time is over or one fails: make seeds.
func manySeeds(t *testing.T) {
	var sum totals
	seed := *fromFlag
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./simtest -run TestSeeds -seed=%d -long=%v -v", seed, *longFlag)
		}
	}()
	for end := time.Now().Add(*forFlag); time.Now().Before(end); seed++ {
		runSeed(t, seed, *longFlag, &sum)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d seeds from %d on, long %v: %+v", seed-*fromFlag, *fromFlag, *longFlag, sum)
}

// TestLongSeeds runs some of the longer kind.
func TestLongSeeds(t *testing.T) {
	count := 10
	if testing.Short() {
		count = 2
	}
	var sum totals
	for seed := range count {
		runSeed(t, uint64(seed), true, &sum)
	}
	t.Logf("%d seeds: %+v", count, sum)
	if sum.kills < count || sum.snapshots == 0 {
		t.Errorf("the runs did too little: %+v", sum)
	}
}

// TestSameSeed: the same seed gives the same run.
func TestSameSeed(t *testing.T) {
	for _, seed := range []uint64{1, 2} {
		var a, b totals
		if runSeed(t, seed, false, &a) != runSeed(t, seed, false, &b) || a != b {
			t.Errorf("seed %d: %+v, then %+v", seed, a, b)
		}
	}
}

// run is one seed's run.
type run struct {
	*cluster
	sum   *totals
	until sim.Time // when the chaos ends
	busy  bool     // a member is being replaced
}

// shapeOf draws what a cluster is. The longer kind has more members, slower disks and more
// compactions, and runs for several times as long.
func shapeOf(r *rand.Rand, long bool) (s shape, chaos time.Duration) {
	s = shape{replicas: 3, tick: tick, keep: 40, every: 60, disk: 2 * time.Millisecond}
	if r.IntN(4) == 0 {
		s.replicas = 5
	}
	s.found = true // with addresses alone a member that was away may find nobody
	s.lease = []time.Duration{0, 6 * tick}[r.IntN(2)]
	s.gather, s.anywhere, s.joint = []int{0, -1}[r.IntN(2)], r.IntN(2) == 0, r.IntN(2) == 0
	if !long {
		s.durable = r.IntN(5) < 3
		return s, time.Duration(800+r.IntN(1200)) * time.Millisecond
	}
	s.replicas = []int{3, 5, 7}[r.IntN(3)]
	s.keep, s.every = uint64(4+r.IntN(40)), uint64(8+r.IntN(60))
	s.durable = r.IntN(5) > 0
	s.disk = []time.Duration{1, 5, 20, 60}[r.IntN(4)] * time.Millisecond
	return s, time.Duration(4000+r.IntN(4000)) * time.Millisecond
}

func seedKey(seed uint64) (key [32]byte) {
	binary.LittleEndian.PutUint64(key[:], seed)
	return key
}

// seedRaft has raft draw its election timeouts from a seed, until undo.
func seedRaft(seed uint64) (undo func()) {
	was := crand.Reader
	crand.Reader = rand.NewChaCha8(seedKey(seed))
	return func() { crand.Reader = was }
}

// runSeed runs one cluster and returns a hash of the history's times.
func runSeed(t *testing.T, seed uint64, long bool, sum *totals) (hash uint64) {
	r := rand.New(rand.NewPCG(seed, 4711))
	key := seedKey(seed)
	defer seedRaft(seed)()
	cfg := sim.Config{Seed: seed, Checksum: true}
	cfg.PropDelay = time.Duration(1000 + r.Int64N(100_000))
	shape, chaos := shapeOf(r, long)
	if seed%4 == 3 {
		shape.role, shape.psk = true, [][]byte{key[:]}
	}
	c := newCluster(t, r, cfg, shape)
	defer c.close()
	x := &run{cluster: c, sum: sum}
	keys := 2 + r.IntN(4)
	for range 3 + r.IntN(3) {
		c.user(keys)
	}
	x.trace("%+v", shape)
	c.run(150 * time.Millisecond)
	x.until = c.net.Now().Add(chaos)
	for _, u := range c.clients {
		u.until = x.until
		u.loop()
	}
	if r.IntN(8) > 0 {
		x.chaos()
	}
	c.run(x.until.Sub(c.net.Now()))
	x.settle(keys)
	ops, unknown := c.hist.Len()
	sum.ops, sum.unknown = sum.ops+ops, sum.unknown+unknown
	if err := c.hist.Check(5 * time.Minute); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	return uint64(c.net.Now()) ^ uint64(ops)<<40 ^ c.net.Stats().Sent
}

// chaos plans faults until the end.
func (x *run) chaos() {
	c := x.cluster
	_ = c.net.SetFaults(sim.Faults{Loss: []float64{0, 0.001, 0.02, 0.1}[c.r.IntN(4)],
		Duplicate: c.r.Float64() * 0.05, Reorder: c.r.Float64() * 0.05,
		ReorderDelay: 1 + c.below(3*time.Millisecond),
		Jitter:       c.below(100 * time.Microsecond)})
	c.net.After(c.below(250*time.Millisecond), x.fault)
}

// fault makes something go wrong, and plans the next.
func (x *run) fault() {
	c := x.cluster
	if c.net.Now() >= x.until {
		return
	}
	victim := c.leader()
	if victim == nil || c.r.IntN(3) == 0 {
		victim = c.servers[c.r.IntN(len(c.servers))]
	}
	after := time.Duration(5+c.r.IntN(300)) * time.Millisecond
	kind := c.r.IntN(13)
	x.trace("fault %d at replica %d (leader %v) for %v", kind, victim.id, victim == c.leader(), after)
	switch {
	case kind < 3:
		x.kill(victim, after)
	case kind == 3 && c.durable:
		for _, s := range c.servers { // all at once
			x.kill(s, time.Duration(5+c.r.IntN(100))*time.Millisecond)
		}
	case kind == 12 && c.durable:
		x.sum.hangs++
		victim.disk.hang(4 * after)
	case kind < 6:
		x.cut(victim, after)
	case kind < 8 && !victim.down && !victim.paused:
		x.sum.pauses++
		victim.paused = true
		ep := victim.ep
		ep.Pause()
		c.net.After(after, func() {
			if victim.ep == ep && !victim.down {
				ep.Resume()
			}
			victim.paused = false
		})
	case kind < 10:
		x.sum.jumps++
		if victim.skew += c.below(3 * time.Second); c.lease == 0 {
			victim.skew -= time.Second // which leases do not allow
		}
		if !victim.down {
			victim.ep.Wake()
		}
	default:
		x.replace()
	}
	c.net.After(c.below(250*time.Millisecond), x.fault)
}

// trace tells what happens, with -v and one seed.
func (x *run) trace(format string, args ...any) {
	if *seedFlag >= 0 {
		x.t.Logf("%d: "+format, append([]any{x.net.Now()}, args...)...)
	}
}

// kill kills a process; one with a disk comes back. In memory it is gone for good, and
// somebody else takes its place: at most one at a time.
func (x *run) kill(s *server, after time.Duration) {
	c := x.cluster
	if s.down || s.gone {
		return
	}
	if !c.durable {
		x.replace()
		return
	}
	x.sum.kills++
	s.crash()
	c.net.After(after, func() {
		if s.down && !s.gone {
			s.start()
		}
	})
}

// cut cuts one server off, both ways or one way only.
func (x *run) cut(s *server, after time.Duration) {
	c := x.cluster
	x.sum.cuts++
	var others []int
	for i := range c.nextSim {
		if i != s.machine && c.r.IntN(4) > 0 {
			others = append(others, i)
		}
	}
	way := c.r.IntN(3)
	if way != 0 {
		_ = c.net.Cut(others, []int{s.machine})
	}
	if way != 1 {
		_ = c.net.Cut([]int{s.machine}, others)
	}
	c.net.After(after, c.net.Heal)
}

// replace kills a member that is not the only one down, and puts a new one in its place,
// under a new id: a change of membership, and the way back of a replica without a disk.
func (x *run) replace() {
	c := x.cluster
	if x.busy {
		return
	}
	var live []*server
	for _, s := range c.servers {
		switch {
		case s.gone, s.id == 1: // one that the clients know stays
		case s.down:
			return // one at a time
		default:
			live = append(live, s)
		}
	}
	x.busy = true
	first := c.r.IntN(len(live))
	old := live[first]
	fresh := c.machine()
	old.gone, fresh.gone = true, false
	x.sum.kills++
	old.crash()
	fresh.start()
	if !c.joint {
		x.member(old, fresh)
		return
	}
	olds, all := []*server{old}, []*server{fresh}
	if other := live[(first+1)%len(live)]; other != old && c.r.IntN(2) == 0 { // which still runs
		other.gone = true
		olds, all = append(olds, other), append(all, c.machine())
		all[1].start()
	}
	x.members(olds, all)
}

// members asks for a change of several members at once until it is done, and all know it.
func (x *run) members(olds, fresh []*server) {
	c := x.cluster
	if l := c.leader(); l != nil {
		rep := l.n.Replica()
		var list []replica.Member
		for _, s := range fresh {
			if _, is := rep.Member(s.id); !is {
				list = append(list, replica.Member{Change: replica.Add, ID: s.id, Addr: s.addr})
			}
		}
		for _, s := range olds {
			if _, is := rep.Member(s.id); is {
				list = append(list, replica.Member{Change: replica.Remove, ID: s.id})
			}
		}
		switch {
		case len(rep.Status().Outgoing) > 0: // it is under way
		case len(list) > 0:
			_ = rep.Reconfigure(list, 0)
		case x.knows(fresh[0]):
			x.sum.changes++
			x.sum.joint++
			x.busy = false
			for _, s := range olds {
				s.crash()
			}
			return
		}
		l.n.Poll()
		l.ep.Wake()
	}
	c.net.After(20*time.Millisecond, func() { x.members(olds, fresh) })
}

// member asks for the change until it is done.
func (x *run) member(old, fresh *server) {
	c := x.cluster
	l := c.leader()
	if l != nil {
		rep := l.n.Replica()
		_, is := rep.Member(old.id)
		_, will := rep.Member(fresh.id)
		switch {
		case is:
			_ = rep.Change(replica.Remove, old.id, "", 0) // asked again until it is so
		case !will:
			_ = rep.Change(replica.Add, fresh.id, fresh.addr, 0)
		case x.knows(fresh):
			x.sum.changes++
			x.busy = false
			return
		}
		l.n.Poll()
		l.ep.Wake()
	}
	c.net.After(20*time.Millisecond, func() { x.member(old, fresh) })
}

// knows reports whether a majority of the members has applied that s is one: only then may
// another one be taken away. The operator of a cluster reads it in the status of each.
func (x *run) knows(s *server) bool {
	count, members := 0, len(x.leader().n.Replica().Status().Members)
	for _, other := range x.servers {
		if other.down {
			continue
		}
		_, is := other.n.Replica().Member(s.id)
		if st := other.n.Replica().Status(); is && len(st.Outgoing) == 0 && st.Members[other.id] != "" {
			count++
		}
	}
	return count > members/2
}

// settle ends all faults: then every key can be read, and the replicas agree.
func (x *run) settle(keys int) {
	c := x.cluster
	c.net.Heal()
	_ = c.net.SetFaults(sim.Faults{})
	for _, s := range c.servers {
		if s.down && !s.gone {
			s.start()
		}
		if s.paused {
			s.ep.Resume()
			s.paused = false
		}
	}
	c.await(20*time.Second, "clients are still waiting", func() bool {
		for _, u := range c.clients {
			if u.busy {
				return false
			}
		}
		return true
	})
	for i := range keys {
		cmd := kv.Command{Op: kv.Get}
		cmd.Key, _ = kv.MakeKey(fmt.Sprint("key", i))
		u := c.clients[i%len(c.clients)]
		u.do(cmd, 5*time.Second, func(r client.Result) {
			if r.Err != nil {
				c.t.Errorf("no answer after the faults ended: %v", r.Err)
			}
		})
		c.await(6*time.Second, "no answer", func() bool { return !u.busy })
	}
	c.await(5*time.Second, "the replicas do not agree", x.agree)
	for _, s := range c.servers {
		if s.down {
			continue
		}
		st := s.n.Replica().Status()
		x.trace("%+v", st)
		x.sum.elections += int(st.Elected)
		x.sum.leased += int(st.Reads.Leased)
		x.sum.followed += int(st.Reads.Followed)
		if st.First > 2 {
			x.sum.snapshots++
		}
		if s.disk != nil {
			x.sum.torn += s.disk.torn
		}
	}
}

// agree reports whether all live members have applied the same, with the same result.
func (x *run) agree() bool {
	var applied uint64
	var state string
	for _, s := range x.servers {
		if s.down {
			continue
		}
		st := s.n.Replica().Status()
		if applied == 0 {
			applied, state = st.Applied, s.n.Replica().Store().Digest()
		}
		if st.Applied != applied || st.Applied != st.Last || s.n.Replica().Store().Digest() != state {
			return false
		}
	}
	return true
}
