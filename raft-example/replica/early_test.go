package replica

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// ack has the leader's messages reach a follower, and gives the leader its answer, with a Quick
// after each: what a node does with the first event of a pass. Process follows each pass but the
// last.
func (m *mesh) ack(leader, follower uint64) {
	l, f := m.posts[leader], m.posts[follower]
	l.Process()
	for _, step := range []struct{ from, to *post }{{l, f}, {f, l}} {
		out := step.from.out
		step.from.out = nil
		for _, msg := range out {
			if m.posts[msg.GetTo()] == step.to {
				step.to.Step(msg)
			}
		}
		step.to.Quick()
	}
}

// image is the state machine as a snapshot has it.
func (p *post) image() []byte {
	b, _ := io.ReadAll(p.Store().Save(nil))
	return b
}

// TestEarly: a leader answers before raft has made the Ready that says what is committed, and
// applies each entry once: the log's time would go on by too much else.
func TestEarly(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	for i := range uint64(5) {
		l.Propose(putBytes(s, i+1, "v"), 2*i)
		c := kv.Command{Op: kv.Clock, Cluster: 1, Seq: 1000}
		l.Propose(c.Append(nil), 2*i+1)
		l.Quick()
		m.ack(1, 2)
		if l.answers[2*i].Status != kv.OK || l.answers[2*i+1].Status != kv.OK {
			t.Fatalf("%d: no answer with the follower's: %+v", i, l.answers)
		}
		if l.told+2 != l.applied {
			t.Errorf("%d: %d applied, %d told: raft was asked first", i, l.applied, l.told)
		}
		l.Process()
		if l.told != l.applied {
			t.Errorf("%d: %d applied, %d told", i, l.applied, l.told)
		}
	}
	m.settle()
	for id := uint64(2); id <= 3; id++ {
		if !bytes.Equal(l.image(), m.posts[id].image()) {
			t.Errorf("replica %d has another state than the leader", id)
		}
	}
}

// TestEarlyChange: entries behind a change of membership in the log wait for its Ready.
func TestEarlyChange(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	if err := l.Change(Learner, 4, "d", 2); err != nil {
		t.Fatal(err)
	}
	l.Propose(putBytes(s, 2, "b"), 3)
	l.Quick()
	m.ack(1, 2)
	if l.told != l.applied || l.applied != l.log.last() {
		t.Errorf("%d applied, %d told, of %d", l.applied, l.told, l.log.last())
	}
	m.settle()
	for tag := uint64(1); tag <= 3; tag++ {
		if l.answers[tag].Status != kv.OK {
			t.Errorf("tag %d: %+v", tag, l.answers[tag])
		}
	}
	if addr, ok := l.Member(4); !ok || addr != "d" || l.Err() != nil {
		t.Errorf("member 4: %q, %v; %v", addr, ok, l.Err())
	}
}

// TestEarlyOffer: a write that came with a follower's answer leaves with it.
func TestEarlyOffer(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	l.Quick()
	l.Process()
	for _, msg := range l.out {
		if msg.GetTo() == 2 {
			f.Step(msg)
		}
	}
	f.Quick()
	for _, msg := range f.out {
		l.Step(msg)
	}
	l.out = nil
	l.Propose(putBytes(s, 2, "b"), 2)
	l.Quick()
	l.Process()
	if got := l.sentTo(); !slices.Equal(got, []uint64{2, 3}) || l.answers[1].Status != kv.OK {
		t.Errorf("sent to %d, %+v", got, l.answers)
	}
}

// TestEarlyRead: a read that was asked for before is answered with the write.
func TestEarlyRead(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	l.Read(theKey(), false, 2)
	l.Quick()
	m.ack(1, 2)
	if l.answers[1].Status != kv.OK || l.answers[2].Status != kv.OK ||
		l.answers[2].Value.String() != "a" {
		t.Errorf("%+v", l.answers)
	}
}

// TestEarlyDeposed: the log of a leader that has heard of a later one is not raft's any more. The
// later leader has committed another entry in the place of its last.
func TestEarlyDeposed(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	l.Quick()
	l.Process()
	last := l.log.last()
	before, _ := l.log.Term(last - 1)
	l.Step(&pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(1)),
		Term: new(l.term + 1), Index: new(last - 1), LogTerm: new(before), Commit: new(last),
		Entries: []*pb.Entry{{Index: new(last), Term: new(l.term + 1), Data: putBytes(s, 1, "b")}}})
	l.Quick()
	l.Process()
	if v, _ := l.Store().Get(theKey()); l.answers[1].Status != kv.Retry || v.String() != "b" {
		t.Errorf("%+v, and the store has %q", l.answers[1], v)
	}
}

// TestEarlyKeeps: entries that raft has not handed out stay in the log, though they are applied
// and no follower should need them. One Ready does not have all of so many.
func TestEarlyKeeps(t *testing.T) {
	m := newMesh(t, Config{KeepEntries: 1}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	const n = 5000
	for i := range uint64(n) {
		l.Propose(putBytes(s, i+1, "0123456789012345678901234567890123456789"), i)
	}
	l.Quick()
	m.ack(1, 2)
	for i := 0; l.applied < l.log.last() && i < 10; i++ {
		m.ack(1, 2)
	}
	m.settle()
	if l.Err() != nil || l.answers[n-1].Status != kv.OK {
		t.Fatalf("%v, %+v", l.Err(), l.answers[n-1])
	}
	if first, _ := l.log.FirstIndex(); first < l.applied-10 {
		t.Errorf("%d entries stay", l.applied-first)
	}
}
