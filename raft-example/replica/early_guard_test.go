package replica

import (
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// answerOf returns a follower's answer to a leader, in the leader's term.
func (p *post) answerOf(id, index uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgAppResp.Enum(), From: &id, To: new(p.cfg.ID),
		Term: new(p.term), Index: &index}
}

// TestEarlyVisit: a follower is steady if raft has sent it all of the log, and will send it more.
func TestEarlyVisit(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	last := l.log.last()
	at := func(state tracker.StateType, next, match uint64) tracker.Progress {
		return tracker.Progress{State: state, Next: next, Match: match}
	}
	paused := at(tracker.StateReplicate, last+1, last)
	paused.MsgAppFlowPaused = true
	for name, c := range map[string]struct {
		id   uint64
		p    tracker.Progress
		want bool
	}{
		"steady":   {2, at(tracker.StateReplicate, last+1, last), true},
		"self":     {1, at(tracker.StateReplicate, last+1, last), false},
		"probe":    {2, at(tracker.StateProbe, last+1, last), false},
		"snapshot": {2, at(tracker.StateSnapshot, last+1, last), false},
		"behind":   {2, at(tracker.StateReplicate, last, last-1), false},
		"paused":   {2, paused, false},
		"most":     {2, at(tracker.StateReplicate, last+1, last+1-maxInflight), true},
		"more":     {2, at(tracker.StateReplicate, last+1, last-maxInflight), false},
	} {
		l.early.to = l.early.to[:0]
		l.visit(c.id, raft.ProgressTypePeer, c.p)
		if got := len(l.early.to) == 1; got != c.want {
			t.Errorf("%s: steady: %v", name, got)
		}
	}
}

// TestEarlyTwice: between an early message and its Ready nothing else is said early, and what is
// proposed then counts.
func TestEarlyTwice(t *testing.T) {
	m := newMesh(t, Config{MaxWaiting: 2}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	for seq := uint64(1); seq <= 2; seq++ {
		l.Propose(putBytes(s, seq, "v"), seq)
		l.Quick()
	}
	if a, ok := l.Propose(putBytes(s, 3, "v"), 3); ok || a.Status != kv.Busy {
		t.Errorf("three wait: %+v, %v", a, ok)
	}
	l.Process()
	l.Propose(putBytes(s, 3, "v"), 3)
	if l.Quick(); l.early.kind != earlyNone {
		t.Error("said early although it is refused")
	}
	m.settle()
	if l.answers[1].Status != kv.OK || l.answers[2].Status != kv.OK || l.Err() != nil {
		t.Errorf("%+v, %v", l.answers, l.Err())
	}
	l.Propose(putBytes(s, 3, "v"), 3)
	l.Quick()
	if a, ok := l.Propose(putBytes(s, 4, "v"), 4); !ok {
		t.Errorf("two wait: %+v", a)
	}
	if a, ok := l.Propose(putBytes(s, 5, "v"), 5); ok {
		t.Errorf("one was sent early, one waits, and a third is taken: %+v", a)
	}
}

// TestEarlyFirst: a leader that is to go, or changes members, has raft take first what it has sent
// early.
func TestEarlyFirst(t *testing.T) {
	for name, then := range map[string]func(l *post){
		"transfer": func(l *post) { l.Transfer(2) },
		"remove":   func(l *post) { _ = l.Change(Remove, 1, "", 9) },
		"learner":  func(l *post) { _ = l.Change(Learner, 4, "d", 9) },
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		l.Propose(putBytes(m.session(l), 1, "a"), 1)
		if l.Quick(); l.early.kind != earlyAppend {
			t.Fatalf("%s: not said early", name)
		}
		then(l)
		m.settle()
		if l.Err() != nil || l.answers[1].Status != kv.OK || l.Leads() != (name == "learner") {
			t.Errorf("%s: %v, %+v, leads %v", name, l.Err(), l.answers[1], l.Leads())
		}
	}
}

// TestEarlyAfterTransfer: proposals are sent early again when a transfer is over that failed.
func TestEarlyAfterTransfer(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.cut[3] = true
	l.Propose(putBytes(s, 1, "a"), 1)
	m.settle()
	l.Step(&pb.Message{Type: pb.MsgTransferLeader.Enum(), From: new(uint64(3)), To: new(uint64(1))})
	m.settle()
	early := func(seq uint64) bool {
		l.Propose(putBytes(s, seq, "b"), seq)
		l.Quick()
		said := l.early.kind == earlyAppend
		l.Process()
		return said
	}
	if early(2) || l.answers[2].Status != kv.Busy {
		t.Errorf("during a transfer: said early, or %+v", l.answers[2])
	}
	m.pass(20 * tick20)
	if !early(3) || l.Err() != nil {
		t.Errorf("after it: not said early, or %v", l.Err())
	}
}

// TestEarlyUncommitted: what is not committed stays far below what raft takes, also if a follower
// has it.
func TestEarlyUncommitted(t *testing.T) {
	for n, want := range map[int]bool{maxInflight - 1: true, maxInflight: false} {
		m := newMesh(t, Config{}, 1, 2, 3, 4, 5)
		l := m.posts[1]
		m.session(l)
		m.settle()
		m.cut[3], m.cut[4], m.cut[5] = true, true, true
		for i := range n { // sessions, which have an entry each
			l.Propose((&kv.Command{Op: kv.Open, Cluster: 1}).Append(nil), uint64(i))
		}
		m.settle()
		if got := slices.Contains(l.steady(), 2); got != want {
			t.Errorf("%d entries: steady: %v", n, got)
		}
	}
}

// TestEarlyAcks: of five voters one has answered, and another one answers. Only answers of this
// term and configuration that are no refusals count, in any order.
func TestEarlyAcks(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(l *post, x *pb.Message) // the first answer
		want          bool
	}{
		"answer":  {want: true},
		"refusal": {before: func(_ *post, x *pb.Message) { x.Reject = new(true) }},
		"term":    {before: func(l *post, x *pb.Message) { x.Term = new(l.term - 1) }},
		"change": {before: func(l *post, _ *pb.Message) {
			_ = l.Change(Learner, 9, "i", 2)
		}, want: true},
		"older": {after: func(l *post, _ *pb.Message) {
			l.Step(l.answerOf(2, l.applied))
			l.Process()
		}, want: true},
	} {
		m := newMesh(t, Config{}, 1, 2, 3, 4, 5)
		l := m.posts[1]
		l.Propose(putBytes(m.session(l), 1, "a"), 1)
		l.Process()
		x := l.answerOf(2, l.log.last())
		last := x.GetIndex()
		if c.before != nil {
			c.before(l, x)
		}
		l.Step(x)
		l.Process()
		if c.after != nil {
			c.after(l, x)
		}
		l.Step(l.answerOf(3, last))
		l.Quick()
		if said := l.early.kind == earlyCommit; said != c.want {
			t.Errorf("%s: applied early: %v", name, said)
		}
		if l.Process(); l.Err() != nil {
			t.Errorf("%s: %v", name, l.Err())
		}
	}
}

// TestEarlyForgets: a change of membership and an election end what a leader knows of its
// followers.
func TestEarlyForgets(t *testing.T) {
	for name, do := range map[string]func(l *post) error{
		"one":   func(l *post) error { return l.Change(Learner, 9, "i", 2) },
		"joint": func(l *post) error { return l.Change(Remove, 3, "", 2) },
		"election": func(l *post) error {
			l.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)),
				To: new(uint64(1)), Term: new(l.term + 1)})
			l.Process()
			l.Campaign()
			return nil
		},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		l.early.acks[2] = 1 << 40
		if err := do(l); err != nil {
			t.Fatal(err)
		}
		m.pass(40 * tick20)
		if l.early.acks[2] > l.log.last() || l.Err() != nil {
			t.Errorf("%s: %v, %v", name, l.early.acks, l.Err())
		}
	}
}

// TestStaleStates: only answers for what is applied, and writes that gather, are left for later.
func TestStaleStates(t *testing.T) {
	for name, c := range map[string]struct {
		make func(m *mesh, l *post, s uint64)
		done bool
	}{
		"nothing": {func(*mesh, *post, uint64) {}, false},
		"stale":   {func(_ *mesh, l *post, _ uint64) { l.Step(l.answerOf(3, l.told)) }, false},
		"read": {func(_ *mesh, l *post, _ uint64) {
			l.Read(theKey(), false, 2)
			l.Step(l.answerOf(3, l.told))
		}, true},
		"write": {func(_ *mesh, l *post, s uint64) {
			l.Propose(heavy(), 1)
			l.Step(l.answerOf(3, l.told))
		}, true},
		"gather": {func(_ *mesh, l *post, s uint64) {
			l.proposeMany(s, few+1)
			l.Process()
			l.Propose(putBytes(s, 100, "a"), 100)
			l.Step(l.answerOf(3, l.told))
		}, false},
		"refusal": {func(_ *mesh, l *post, _ uint64) {
			x := l.answerOf(3, l.told)
			x.Reject = new(true)
			l.Step(x)
		}, true},
		"ticked": {func(m *mesh, l *post, _ uint64) {
			m.now = m.now.Add(tick20)
			l.Tick(m.now)
		}, true},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		s := m.session(l)
		m.settle()
		c.make(m, l, s)
		l.changed = true
		if done := l.Quick(); done != c.done {
			t.Errorf("%s: done: %v", name, done)
		}
		if l.Process(); l.Err() != nil {
			t.Errorf("%s: %v", name, l.Err())
		}
	}
}

// proposeMany proposes writes.
func (p *post) proposeMany(s uint64, n int) {
	for i := range uint64(n) {
		p.Propose(putBytes(s, i+1, "v"), i+1000)
	}
}
