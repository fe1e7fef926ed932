package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestOneTrain: all proposals of a pass are one message to each follower, with one answer, and
// each proposal has its own result.
func TestOneTrain(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	clear(m.moved)
	const n = 100
	for i := range uint64(n) {
		if _, ok := l.Propose(putBytes(s, i+1, fmt.Sprint(i)), i); !ok {
			t.Fatal("not taken")
		}
	}
	l.Process()
	m.carry()
	if got := m.moved[pb.MsgApp]; got != 2 {
		t.Errorf("%d messages for %d proposals to 2 followers", got, n)
	}
	m.settle()
	if got := m.moved[pb.MsgAppResp]; got > 4 { // those of the entries, and of their commit index
		t.Errorf("%d answers", got)
	}
	for i := range uint64(n) {
		if l.answers[i].Status != kv.OK {
			t.Errorf("proposal %d: %+v", i, l.answers[i])
		}
	}
	for id, p := range m.posts {
		if v, _ := p.Store().Get(theKey()); v.String() != fmt.Sprint(n-1) {
			t.Errorf("replica %d has %q", id, v)
		}
	}
}

// writesIn counts the writes of entries.
func writesIn(entries []*pb.Entry) (n int) {
	for _, e := range entries {
		for rest := e.Data; len(rest) > 0; n++ {
			_, rest = kv.Split(rest)
		}
	}
	return n
}

// TestRuns: writes of a pass share entries up to a size, in order. What is no write has an entry of
// its own.
func TestRuns(t *testing.T) {
	value := func(seq uint64) string { return fmt.Sprintf("%031d", seq) } // maxRun is a multiple
	most := maxRun / len(putBytes(1, 1, value(1)))
	for name, c := range map[string]struct {
		before, after int // writes around an Open
		open          bool
		entries       []int // writes in each
	}{
		"one":       {1, 0, false, []int{1}},
		"two":       {2, 0, false, []int{2}},
		"as many":   {most, 0, false, []int{most}},
		"one more":  {most + 1, 0, false, []int{most, 1}},
		"two runs":  {2 * most, 0, false, []int{most, most}},
		"an open":   {0, 0, true, []int{1}},
		"in middle": {3, 2, true, []int{3, 1, 2}},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		s := m.session(l)
		m.settle()
		first, seq := l.log.last(), uint64(0)
		puts := func(n int) {
			for range n {
				seq++
				l.Propose(putBytes(s, seq, value(seq)), seq)
			}
		}
		puts(c.before)
		if c.open {
			l.Propose((&kv.Command{Op: kv.Open, Cluster: 1}).Append(nil), 1000)
		}
		puts(c.after)
		l.Process()
		m.settle()
		var got []int
		for _, e := range l.log.entries[first-l.log.base:] {
			got = append(got, writesIn([]*pb.Entry{e}))
		}
		if !slices.Equal(got, c.entries) {
			t.Errorf("%s: entries of %v writes, want %v", name, got, c.entries)
		}
		for tag := range seq {
			if a, ok := l.answers[tag+1]; !ok || a.Status != kv.OK || a.Found {
				t.Errorf("%s: write %d: %+v, %v", name, tag+1, a, ok)
			}
		}
		open := first + uint64(len(c.entries))
		if c.after > 0 {
			open--
		}
		if a := l.answers[1000]; c.open && (a.Status != kv.OK || a.Number != open) {
			t.Errorf("%s: session: %+v, want %d", name, a, open)
		}
		for id, p := range m.posts {
			v, _ := p.Store().Get(theKey())
			if seq > 0 && v.String() != value(seq) {
				t.Errorf("%s: replica %d has %q", name, id, v)
			}
		}
	}
}

// TestBatchOrder: a change of membership between proposals keeps its place, and every tag its own
// answer.
func TestBatchOrder(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	if err := l.Change(Learner, 4, "d", 2); err != nil {
		t.Fatal(err)
	}
	l.Propose(putBytes(s+1000, 1, "b"), 3) // no such session
	l.Propose(putBytes(s, 2, "c"), 4)
	m.settle()
	want := map[uint64]kv.Status{1: kv.OK, 2: kv.OK, 3: kv.Expired, 4: kv.OK}
	for tag, status := range want {
		if l.answers[tag].Status != status {
			t.Errorf("tag %d: %v, want %v", tag, l.answers[tag].Status, status)
		}
	}
}

// TestReadsShareRounds: reads that come while a round is under way share the next one.
func TestReadsShareRounds(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	before := l.Status().Reads
	for i := range uint64(100) {
		if _, ok := l.Read(theKey(), false, i); !ok {
			t.Fatal("not taken")
		}
		l.Process()
	}
	m.settle()
	r := l.Status().Reads
	if rounds := r.Rounds - before.Rounds; rounds != 2 || r.Waited-before.Waited != 100 {
		t.Errorf("%d rounds: %+v", rounds, r)
	}
	for i := range uint64(100) {
		if l.answers[i].Status != kv.NotFound {
			t.Errorf("read %d: %+v", i, l.answers[i])
		}
	}
	// A round whose messages are lost does not stop the next one for longer than a tick.
	m.cut[2], m.cut[3] = true, true
	l.Read(theKey(), false, 1000)
	m.settle()
	clear(m.cut)
	m.pass(l.TickTime())
	if _, ok := l.answers[1000]; !ok {
		t.Error("no answer after a lost round")
	}
}

// TestGather: beside a few writes under way others leave at once; beside more they wait, and leave
// together once these are answered. They are answered, too, if leadership is lost first.
func TestGather(t *testing.T) {
	for _, quick := range []bool{false, true} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l, s, seq := m.posts[1], uint64(0), uint64(0)
		s = m.session(l)
		m.settle()
		propose := func(n int) (sent int) {
			for range n {
				seq++
				l.Propose(putBytes(s, seq, fmt.Sprint(seq)), seq)
			}
			if quick {
				l.Quick()
			}
			l.Process()
			for _, msg := range l.out {
				if msg.GetType() == pb.MsgApp && msg.GetTo() == 2 {
					sent += writesIn(msg.Entries)
				}
			}
			return sent
		}
		if got := propose(few); got != few {
			t.Errorf("%d of %d writes have left", got, few)
		}
		if got := propose(1); got != few+1 {
			t.Errorf("%d writes have left: one beside %d is to leave at once", got, few)
		}
		if got := propose(3); got != few+1 {
			t.Errorf("%d writes have left: three are to gather", got)
		}
		m.carry() // to the followers
		l.out = nil
		for _, msg := range m.posts[2].out {
			if msg.GetTo() == 1 {
				l.Step(msg)
				if quick {
					l.Quick()
				}
				l.Process()
			}
		}
		if got := propose(0); got != 3 {
			t.Errorf("%d writes have left, want the three that gathered", got)
		}
		m.settle()
		for tag := range seq {
			if l.answers[tag+1].Status != kv.OK {
				t.Errorf("write %d: %+v", tag+1, l.answers[tag+1])
			}
		}
	}
}

// TestGatherDeposed: writes that gathered were never given to raft, and are answered so when the
// leader loses its leadership.
func TestGatherDeposed(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.settle()
	m.cut[1] = true
	for seq := uint64(1); seq <= few+3; seq++ {
		l.Propose(putBytes(s, seq, "v"), seq)
		l.Process()
	}
	l.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)),
		Term: new(l.term + 1)})
	l.Process()
	if l.Leads() {
		t.Fatal("the leader still leads")
	}
	for seq := uint64(1); seq <= few+3; seq++ {
		want := kv.Retry
		if seq > few+1 {
			want = kv.NotLeader
		}
		if got := l.answers[seq].Status; got != want {
			t.Errorf("write %d: %v, want %v", seq, got, want)
		}
	}
}
