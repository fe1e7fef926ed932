package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// askedBy returns the receivers of heartbeats of the round that one read at p starts, which it does
// not carry.
func askedBy(m *mesh, p *post, tag uint64) (to []uint64) {
	m.t.Helper()
	if _, ok := p.Read(theKey(), false, tag); !ok {
		m.t.Fatal("not taken")
	}
	p.Process()
	return receivers(p)
}

func receivers(p *post) (to []uint64) {
	for _, msg := range p.out {
		if msg.GetType() == pb.MsgHeartbeat {
			to = append(to, msg.GetTo())
		}
	}
	return to
}

func wantRead(t *testing.T, p *post, tag uint64) {
	t.Helper()
	if a, ok := p.answers[tag]; !ok || a.Status != kv.NotFound {
		t.Errorf("read %d: answered %v, %+v", tag, ok, a)
	}
}

// TestSpareHeartbeats: the first round for reads goes to all, the next ones to the voters that
// answered first, as many as a quorum needs, and never to learners.
func TestSpareHeartbeats(t *testing.T) {
	for _, c := range []struct{ voters, first, next int }{{2, 1, 1}, {3, 2, 1}, {4, 3, 2}, {5, 4, 2}} {
		m := newMesh(t, Config{}, []uint64{1, 2, 3, 4, 5}[:c.voters]...)
		l := m.posts[1]
		for i, want := range []int{c.first, c.next, c.next} {
			tag := uint64(10 + i)
			if to := askedBy(m, l, tag); len(to) != want {
				t.Errorf("%d voters, round %d: asked %v, want %d", c.voters, i, to, want)
			}
			m.settle()
			wantRead(t, l, tag)
			if l.RoundEnd() != 0 {
				t.Error("heartbeats of a round that is over are held")
			}
		}
		m.add(9, Start{})
		if err := l.Change(Learner, 9, "i", 99); err != nil {
			t.Fatal(err)
		}
		m.pass(time.Second)
		if to := askedBy(m, l, 20); len(to) != c.next {
			t.Errorf("%d voters and a learner: asked %v, want %d", c.voters, to, c.next)
		}
	}
}

// TestSpareHurry: when those that were asked do not answer, all are asked after a tenth of a tick,
// and the quickest of them the next time.
func TestSpareHurry(t *testing.T) {
	for name, late := range map[string]time.Duration{"late": 2 * time.Millisecond, "back": -1} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		askedBy(m, l, 1)
		m.settle()
		m.cut[2] = true // it answered first
		if to := askedBy(m, l, 2); len(to) != 1 || to[0] != 2 {
			t.Fatal(to)
		}
		end := m.now.Add(2 * time.Millisecond)
		if l.RoundEnd() != end || l.NextWake() != end {
			t.Errorf("%s: ends at %v, wakes at %v, want %v", name, l.RoundEnd(), l.NextWake(), end)
		}
		m.settle()
		if late > 0 {
			l.Tick(end - 1)
			m.settle()
			if a, ok := l.answers[2]; ok {
				t.Errorf("%s: answered early: %+v", name, a)
			}
		}
		m.now = m.now.Add(late)
		if l.Tick(m.now); l.RoundEnd() != 0 {
			t.Errorf("%s: all are asked, and some heartbeats are held", name)
		}
		m.settle()
		wantRead(t, l, 2)
		if to := askedBy(m, l, 3); len(to) != 1 || to[0] != 3 {
			t.Errorf("%s: then %v are asked", name, to)
		}
		m.settle()
		wantRead(t, l, 3)
	}
}

// TestSpareTick: a tick's heartbeats go to all, whatever round is under way.
func TestSpareTick(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	askedBy(m, l, 1)
	m.settle()
	if to := askedBy(m, l, 2); len(to) != 1 {
		t.Fatal(to)
	}
	l.out = nil
	m.now = m.now.Add(tick20)
	l.nextTick = m.now
	l.spare.from = m.now // not late
	l.Tick(m.now)
	l.Process()
	if to := receivers(l); len(to) != 2 || l.RoundEnd() != 0 {
		t.Errorf("a tick's heartbeats went to %v, and of the round's some are held: %v", to, l.RoundEnd())
	}
	m.settle()
	wantRead(t, l, 2)
	if to := askedBy(m, l, 3); len(to) != 1 {
		t.Errorf("after a tick %v are asked", to)
	}
}

// TestSpareJoint: a joint configuration needs two quorums, and all are asked.
func TestSpareJoint(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	askedBy(m, l, 1)
	m.settle()
	l.log.conf.VotersOutgoing = []uint64{1, 2, 3}
	if to := askedBy(m, l, 2); len(to) != 2 {
		t.Errorf("asked %v", to)
	}
	l.log.conf.VotersOutgoing = nil
	m.settle()
	l.log.conf.Voters = []uint64{2, 3} // this one leads for others
	if to := askedBy(m, l, 3); len(to) != 2 {
		t.Errorf("asked %v", to)
	}
}

// TestSpareLost: a replica that leads no more holds nothing back.
func TestSpareLost(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	askedBy(m, l, 1)
	m.settle()
	askedBy(m, l, 2)
	m.cut[1] = true
	m.pass(40 * tick20)
	if l.Leads() || l.RoundEnd() != 0 || len(l.spare.quick) > 0 || l.answers[2].Status != kv.Retry {
		t.Errorf("leads %v, %+v, %+v", l.Leads(), l.spare, l.answers[2])
	}
}

// TestQuickest: voters are in the order in which they answered the last round, the others behind.
func TestQuickest(t *testing.T) {
	var s spare
	for i, c := range []struct {
		id    uint64
		round string
		want  [4]uint64
	}{
		{2, "a", [4]uint64{2}}, {3, "a", [4]uint64{2, 3}}, {2, "a", [4]uint64{2, 3}},
		{4, "a", [4]uint64{2, 3, 4}}, {4, "b", [4]uint64{4, 2, 3}}, {3, "b", [4]uint64{4, 3, 2}},
		{4, "b", [4]uint64{4, 3, 2}}, {5, "b, and longer", [4]uint64{5, 4, 3, 2}},
	} {
		s.answered(c.id, []byte(c.round))
		var got [4]uint64
		copy(got[:], s.quick)
		if got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}

// TestSpareNewest: of two heartbeats to one peer the newer is held, and the time counts from the
// first.
func TestSpareNewest(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	askedBy(m, l, 1)
	m.settle()
	first := &pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(uint64(3)), Context: []byte("1")}
	second := &pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(uint64(3)), Context: []byte("2")}
	if !l.spared(first) {
		t.Fatal("not held")
	}
	l.now++
	if !l.spared(second) || len(l.spare.messages) != 1 || l.spare.messages[0] != second {
		t.Errorf("held: %v", l.spare.messages)
	}
	if got, want := l.RoundEnd(), m.now.Add(2*time.Millisecond); got != want {
		t.Errorf("held until %v, want %v", got, want)
	}
}

// TestQuickVoters: only voters count, and of them only answers to rounds.
func TestQuickVoters(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	askedBy(m, l, 1)
	m.settle()
	answer := func(from uint64, context string) {
		l.hears(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &from, Context: []byte(context)})
	}
	answer(3, "")
	answer(9, "9")
	if !slices.Equal(l.spare.quick, []uint64{2, 3}) {
		t.Errorf("%v, want 2 and 3", l.spare.quick)
	}
	l.log.conf.Voters = []uint64{1, 3, 4} // 2 has gone
	if l.needless(3) || !l.needless(4) {
		t.Errorf("without 3 %v, without 4 %v: want 3 alone to be asked", l.needless(3), l.needless(4))
	}
}
