package replica

import (
	"fmt"
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
