package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// crowd is a leader whose requests gather for a while.
type crowd struct {
	*mesh
	l     *post
	s     uint64
	seq   uint64
	reads bool
	slow  bool // no Quick
}

const wait = 60 * time.Microsecond

func newCrowd(t *testing.T, reads bool) *crowd {
	m := newMesh(t, Config{GatherFor: wait}, 1, 2, 3)
	return &crowd{mesh: m, l: m.posts[1], s: m.session(m.posts[1]), reads: reads}
}

// ask makes n requests and returns how many rounds have begun.
func (c *crowd) ask(n int) (rounds int) {
	for range n {
		c.seq++
		if c.reads {
			c.l.Read(theKey(), false, c.seq)
		} else {
			c.l.Propose(putBytes(c.s, c.seq, "v"), c.seq)
		}
	}
	if !c.slow {
		c.l.Quick()
	}
	c.l.Process()
	return c.begun()
}

// begun counts the rounds that have begun and are not carried.
func (c *crowd) begun() (rounds int) {
	for _, m := range c.l.out {
		if m.GetTo() == 2 && (len(m.Entries) > 0 || len(m.Context) > 0) {
			rounds++
		}
	}
	return rounds
}

// tick lets time pass at the leader.
func (c *crowd) tick(d time.Duration) (rounds int) {
	c.now = c.now.Add(d)
	c.l.Tick(c.now)
	c.l.Process()
	return c.begun()
}

// round begins a round of n and ends it.
func (c *crowd) round(n int) {
	c.t.Helper()
	c.ask(n)
	if c.tick(wait); c.begun() != 1 {
		c.t.Fatalf("%d requests: %d rounds", n, c.begun())
	}
	c.settle()
	if c.l.RoundEnd() != 0 {
		c.t.Fatalf("it wakes at %v though nothing waits", c.l.RoundEnd())
	}
}

// TestCrowd: after a round of many the next one waits until as many have come, at most gatherUp, or
// for a while. After one of few it does not wait.
func TestCrowd(t *testing.T) {
	for _, c := range []struct {
		last, n int
		waits   bool
	}{{few, 1, false}, {few + 1, few, true}, {few + 1, few + 1, false}, {20, 19, true},
		{20, 20, false}, {gatherUp + 20, gatherUp - 1, true}, {gatherUp + 20, gatherUp, false}} {
		for i := range 3 {
			name := fmt.Sprintf("case %d: %d after %d", i, c.n, c.last)
			m := newCrowd(t, i == 0)
			m.slow = i == 1
			m.round(c.last)
			if got := m.ask(c.n); (got == 0) != c.waits {
				t.Fatalf("%s: %d rounds", name, got)
			}
			if !c.waits {
				continue
			}
			if end := m.now.Add(wait); m.l.RoundEnd() != end || m.l.NextWake() != end {
				t.Errorf("%s: it wakes at %v and %v, want %v", name, m.l.RoundEnd(), m.l.NextWake(), end)
			}
			if got := m.tick(wait - 1); got != 0 {
				t.Errorf("%s: %d rounds before the time", name, got)
			}
			if got := m.tick(1); got != 1 {
				t.Errorf("%s: %d rounds when the time is over", name, got)
			}
			m.settle()
			if a := m.l.answers[m.seq]; a.Status != kv.OK && a.Status != kv.NotFound {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}

// TestGatherCalls: what a gather says, call by call.
func TestGatherCalls(t *testing.T) {
	g := gather{most: wait}
	const now = monotime.Time(time.Hour)
	check := func(step string, waits, got bool, end monotime.Time) {
		t.Helper()
		if got != waits || g.end() != end {
			t.Errorf("%s: waits %v until %v, want %v until %v", step, got, g.end(), waits, end)
		}
		for at, due := range map[monotime.Time]bool{now - 1: true, now: false,
			now.Add(wait) - 1: false, now.Add(wait): true} {
			if due = due && waits; g.due(at) != due {
				t.Errorf("%s: due %v at %v", step, !due, at-now)
			}
		}
	}
	check("nothing", false, g.wait(0, now), monotime.Never)
	check("a first request", false, g.wait(1, now), monotime.Never)
	g.left(10)
	check("nothing after many", false, g.wait(0, now), monotime.Never)
	check("one after many", true, g.wait(1, now), now.Add(wait))
	check("another one", true, g.wait(2, now.Add(wait)-1), now.Add(wait))
	check("as many", false, g.wait(10, now), monotime.Never)
	check("one again", true, g.wait(1, now), now.Add(wait))
	check("the requests go", false, g.wait(0, now), monotime.Never)
	g.wait(1, now)
	g.left(1)
	check("they have left", false, false, monotime.Never)
	check("one after one", false, g.wait(1, now), monotime.Never)
}

// TestCrowdBack: a clock that goes back ends the wait.
func TestCrowdBack(t *testing.T) {
	for _, reads := range []bool{false, true} {
		m := newCrowd(t, reads)
		m.round(20)
		if m.ask(1) != 0 || m.tick(-time.Second) != 1 {
			t.Errorf("reads %v: %d rounds", reads, m.begun())
		}
	}
}

// TestCrowdGoes: what waits is answered when the leadership is lost, and nothing waits then.
func TestCrowdGoes(t *testing.T) {
	for _, reads := range []bool{false, true} {
		m := newCrowd(t, reads)
		m.round(20)
		m.ask(1)
		m.l.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)),
			Term: new(m.l.term + 1)})
		m.l.Process()
		want := map[bool]kv.Status{false: kv.NotLeader, true: kv.Retry}[reads]
		if got := m.l.answers[m.seq].Status; m.l.Leads() || got != want || m.l.RoundEnd() != 0 {
			t.Errorf("reads %v: %v, want %v; wakes at %v", reads, got, want, m.l.RoundEnd())
		}
	}
}

// TestCrowdLeased: reads that a lease serves do not wait, nor does a round that extends it.
func TestCrowdLeased(t *testing.T) {
	m := newMesh(t, Config{GatherFor: wait, Lease: 100 * time.Millisecond}, 1, 2, 3)
	c := &crowd{mesh: m, l: m.posts[1], reads: true}
	c.round(20)
	if c.ask(1) != 0 || c.l.RoundEnd() == 0 {
		t.Fatal("a read does not wait") // the time is that of before the round
	}
	c.l.Read(theKey(), false, 1000)
	c.l.Now(c.now)
	if c.l.Process(); c.l.RoundEnd() != 0 || c.begun() != 0 {
		t.Errorf("it wakes at %v though all is answered; %d rounds", c.l.RoundEnd(), c.begun())
	}
	wantRead(t, c.l, c.seq)
	wantRead(t, c.l, 1000)
}
