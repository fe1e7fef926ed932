package replica

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// leaders returns which of the replicas lead.
func (m *mesh) leaders(ids ...uint64) (lead []uint64) {
	for _, id := range ids {
		if p := m.posts[id]; p != nil && p.Leads() {
			lead = append(lead, id)
		}
	}
	return lead
}

// ticks lets n ticks pass.
func (m *mesh) ticks(n int) { m.pass(time.Duration(n) * tick20) }

// TestLeaderLeaves: a leader that is to go with another voter, which has failed already, hands over
// before the joint configuration ends. Those that stay need neither of them then.
func TestLeaderLeaves(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	m.cut[3] = true
	m.add(4, Start{})
	m.add(5, Start{})
	list := []Member{{Remove, 1, ""}, {Remove, 3, ""}, {Add, 4, "d"}, {Add, 5, "e"}}
	if err := m.posts[1].Reconfigure(list, 1); err != nil {
		t.Fatal(err)
	}
	m.ticks(100)
	if lead := m.leaders(1, 2, 4, 5); len(lead) != 1 || lead[0] == 1 {
		t.Fatalf("%v lead", lead)
	}
	m.cut[1] = true
	m.ticks(100)
	for _, id := range []uint64{2, 4, 5} {
		st := m.posts[id].Status()
		if !slices.Equal(ids(m.posts[id]), []uint64{2, 4, 5}) || len(st.Outgoing) > 0 {
			t.Errorf("replica %d: %+v", id, st)
		}
	}
	if lead := m.leaders(2, 4, 5); len(lead) != 1 {
		t.Errorf("%v lead", lead)
	}
}

// TestLeaderStays: a leader that is asked to remove itself hands over, and its successor does it.
// If nobody was heard of there is none, and it does it itself.
func TestLeaderStays(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	if err := m.posts[1].Change(Remove, 1, "", 1); !errors.Is(err, ErrLeader) {
		t.Fatal(err)
	}
	m.settle()
	lead := m.leaders(1, 2, 3)
	if len(lead) != 1 || lead[0] == 1 {
		t.Fatalf("%v lead", lead)
	}
	l := m.posts[lead[0]]
	if err := l.Change(Remove, 1, "", 2); err != nil {
		t.Fatal(err)
	}
	m.ticks(2)
	if !slices.Equal(ids(l), []uint64{2, 3}) {
		t.Errorf("%+v", l.Status())
	}
	alone := newMesh(t, Config{}, 1)
	if alone.posts[1].handOver() {
		t.Error("handed over to nobody")
	}
}

// TestLeaderMeanwhile: replica 2, which is to go, becomes the leader before that is committed, and
// fails when it has gone. Of four members two others run then, a majority of those that stay: they
// must not need its vote.
func TestLeaderMeanwhile(t *testing.T) {
	for what, change := range map[string]Change{"remove": Remove, "learner": Learner} {
		t.Run(what, func(t *testing.T) { leaderMeanwhile(t, change) })
	}
}

func leaderMeanwhile(t *testing.T, change Change) {
	m := newMesh(t, Config{}, 1, 2, 3, 4)
	if err := m.posts[1].Change(change, 2, "b", 1); err != nil {
		t.Fatal(err)
	}
	m.carry() // all have the entry, and nobody knows that it is committed
	l, p := m.posts[1], m.posts[2]
	l.Transfer(2)
	l.Process()
	for _, msg := range l.out {
		if msg.GetType() == pb.MsgTimeoutNow {
			p.Step(msg)
		}
	}
	l.out = nil
	m.cut[1] = true
	led := false
	votes := func() bool {
		return slices.Contains(p.log.conf.GetVoters(), 2) ||
			slices.Contains(p.log.conf.GetVotersOutgoing(), 2)
	}
	m.after = func(*post) {
		p.Process()
		led = led || p.Leads()
		if !votes() {
			m.cut[2] = true // what it would have sent is lost, too
		}
	}
	m.ticks(200)
	if !led || !m.cut[2] {
		t.Fatalf("replica 2 led: %v, and has gone: %v", led, m.cut[2])
	}
	lead := m.leaders(3, 4)
	if len(lead) != 1 {
		t.Fatalf("%v lead", lead)
	}
	conf := m.posts[lead[0]].log.conf
	if len(conf.GetVotersOutgoing()) > 0 || slices.Contains(conf.GetVoters(), 2) {
		t.Errorf("%v", conf)
	}
}

// TestRemoved: a client that asks for the removal of a voter hears when that is not needed any
// more, and not before.
func TestRemoved(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2)
	l := m.posts[1]
	if err := l.Change(Remove, 2, "", 1); err != nil {
		t.Fatal(err)
	}
	m.settle()
	if a, ok := l.answers[1]; ok || len(l.Status().Outgoing) != 2 {
		t.Fatalf("%+v while replica 2 still has a vote: %+v", a, l.Status())
	}
	m.ticks(2)
	if a := l.answers[1]; a.Status != kv.OK || !slices.Equal(ids(l), []uint64{1}) {
		t.Fatalf("%+v, %+v", a, l.Status())
	}
	m.cut[2] = true
	s := m.session(l)
	l.Propose(putBytes(s, 1, "v"), 2)
	m.settle()
	if a := l.answers[2]; a.Status != kv.OK {
		t.Errorf("alone: %+v", a)
	}
	if err := l.Change(Remove, 1, "", 3); !errors.Is(err, ErrMember) {
		t.Errorf("the last one goes: %v", err)
	}
}

// TestRemovedUnknown: a leader that stops leading during a removal says that it does not know.
func TestRemovedUnknown(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3, 4)
	l := m.posts[1]
	if err := l.Change(Remove, 4, "", 1); err != nil {
		t.Fatal(err)
	}
	m.settle()
	m.cut[1] = true
	m.ticks(100)
	if a, ok := l.answers[1]; !ok || a.Status != kv.Retry || l.Leads() {
		t.Errorf("%+v, leads %v", a, l.Leads())
	}
	if lead := m.leaders(2, 3, 4); len(lead) != 1 {
		t.Errorf("%v lead", lead)
	}
}

// TestChangeRepeated: of a change whose answer was lost with its leader, the next leader says that
// it is made, and that nothing more was. A repeat while it is under way is told to come again.
func TestChangeRepeated(t *testing.T) {
	for what, change := range map[string]Member{"remove": {Remove, 4, ""},
		"learner": {Learner, 4, "a"}, "add": {Add, 5, "e"}} {
		t.Run(what, func(t *testing.T) { changeRepeated(t, change) })
	}
}

func changeRepeated(t *testing.T, c Member) {
	m := newMesh(t, Config{}, 1, 2, 3, 4)
	if c.ID == 5 {
		m.add(5, Start{})
	}
	l := m.posts[1]
	if err := l.Change(c.Change, c.ID, c.Addr, 1); err != nil {
		t.Fatal(err)
	}
	if err := l.Change(c.Change, c.ID, c.Addr, 2); err != nil {
		t.Fatal(err)
	}
	l.Process()
	if a := l.answers[2]; a.Status != kv.Busy {
		t.Errorf("a repeat while it is under way: %+v", a)
	}
	for _, msg := range l.out { // all get the entry, and none of their answers arrives
		m.posts[msg.GetTo()].Step(msg)
	}
	m.cut[1] = true
	m.ticks(200)
	if a := l.answers[1]; a.Status != kv.Retry {
		t.Fatalf("the leader that was cut off says %+v", a)
	}
	lead := m.leaders(2, 3, 4, 5)
	if len(lead) != 1 {
		t.Fatalf("%v lead", lead)
	}
	l = m.posts[lead[0]]
	before := l.Status()
	for i, again := range []func(tag uint64) error{
		func(tag uint64) error { return l.Change(c.Change, c.ID, c.Addr, tag) },
		func(tag uint64) error { return l.Reconfigure([]Member{c}, tag) },
	} {
		tag := uint64(100 + i)
		if err := again(tag); err != nil {
			t.Fatal(err)
		}
		l.Process()
		if _, ok := l.answers[tag]; ok {
			t.Error("answered before anybody agreed")
		}
		m.settle()
		if a := l.answers[tag]; a.Status != kv.OK || !a.Found {
			t.Errorf("repeated: %+v", a)
		}
	}
	after := l.Status()
	if !maps.Equal(before.Members, after.Members) ||
		!slices.Equal(before.Learners, after.Learners) || len(after.Outgoing) > 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
}

// TestChangeStale: a leader that was deposed, and does not know that a member was added, does not
// say that there is none.
func TestChangeStale(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	m.add(4, Start{})
	m.cut[1] = true
	if err := m.posts[1].Change(Remove, 4, "", 1); err != nil {
		t.Fatal(err)
	}
	m.ticks(5)
	if a, ok := m.posts[1].answers[1]; ok {
		t.Errorf("alone it says %+v", a)
	}
	m.ticks(200)
	if a := m.posts[1].answers[1]; a.Status != kv.Retry {
		t.Errorf("when it leads no more it says %+v", a)
	}
}

// TestLeftFirst: replica 2 hears first that its vote is taken, and has more of the log than the
// others. They do not know that, and need its vote. The leader fails. Replica 3, which is to go
// too, has little of the log.
func TestLeftFirst(t *testing.T) {
	for what, c := range map[string]Member{"remove": {Remove, 2, ""}, "learner": {Learner, 2, "b"}} {
		t.Run(what, func(t *testing.T) { leftFirst(t, c) })
	}
}

func leftFirst(t *testing.T, c Member) {
	m := newMesh(t, Config{}, 1, 2, 3)
	m.add(4, Start{})
	m.add(5, Start{})
	l := m.posts[1]
	s := m.session(l)
	list := []Member{c, {Remove, 3, ""}, {Add, 4, "d"}, {Add, 5, "e"}}
	if err := l.Reconfigure(list, 1); err != nil {
		t.Fatal(err)
	}
	m.settle()
	l.left = l.term // do not leave the joint configuration yet
	m.ticks(40)
	give := func(from *post, to ...uint64) { // all else that it sends is lost
		from.Process()
		for _, msg := range from.out {
			if slices.Contains(to, msg.GetTo()) {
				m.posts[msg.GetTo()].Step(msg)
			}
		}
		from.out = nil
	}
	l.left = 0
	l.leave()
	give(l, 2, 4)
	give(m.posts[2], 1)
	give(m.posts[4], 1)
	l.Propose(putBytes(s, 1, "v"), 2)
	give(l, 2)
	m.posts[2].Process()
	if st := m.posts[2].Status(); len(st.Outgoing) > 0 || st.Last <= m.posts[4].Status().Last {
		t.Fatalf("%+v", st)
	}
	if st := m.posts[4].Status(); len(st.Outgoing) == 0 {
		t.Fatalf("%+v", st)
	}
	m.cut[1] = true
	m.after = func(*post) {
		if m.posts[3].Leads() {
			t.Error("3 leads, without what is committed")
		}
	}
	m.ticks(200)
	if lead := m.leaders(4, 5); len(lead) != 1 {
		t.Fatalf("%v lead", lead)
	}
	for _, id := range []uint64{4, 5} {
		if st := m.posts[id].Status(); len(st.Outgoing) > 0 || st.Members[3] != "" {
			t.Errorf("replica %d: %+v", id, st)
		}
	}
}

// TestAbsolve: for which candidates the log of a replica without a vote does not count.
func TestAbsolve(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, p := m.posts[1], m.posts[2]
	if err := l.Change(Remove, 2, "", 1); err != nil {
		t.Fatal(err)
	}
	m.ticks(5)
	at, term := p.change.at, p.change.term
	if at == 0 || len(p.Status().Outgoing) > 0 {
		t.Fatalf("%+v, %+v", p.change, p.Status())
	}
	const far = 1 << 62
	for _, tt := range []struct{ logTerm, index, seen, want uint64 }{
		{term, at, at, far},
		{term, at - 1, at, at - 1},
		{term - 1, at + 9, at, at + 9},
		{term + 1, 1, at, far},
		{term, at + 1, at + 1, at + 1}, // a later change may have given the vote back
	} {
		p.change.seen = tt.seen
		for _, typ := range []pb.MessageType{pb.MsgVote, pb.MsgPreVote, pb.MsgApp} {
			msg := &pb.Message{Type: typ.Enum(), Term: new(term + 2), LogTerm: new(tt.logTerm),
				Index: new(tt.index)}
			want := tt.want
			if typ == pb.MsgApp {
				want = tt.index
			}
			if p.absolve(msg); msg.GetIndex() != want {
				t.Errorf("%v %+v: %d", typ, tt, msg.GetIndex())
			}
		}
	}
	l.change = p.change
	l.change.seen = at
	msg := &pb.Message{Type: pb.MsgVote.Enum(), LogTerm: new(term), Index: new(at)}
	if l.absolve(msg); msg.GetIndex() != at {
		t.Error("a voter's log does not count")
	}
}

// TestLeaveBeforeAdvance: a tick that comes when the joint configuration is applied, and raft not
// told so yet, does not lose the proposal to leave it.
func TestLeaveBeforeAdvance(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	if err := l.Reconfigure([]Member{{Remove, 3, ""}}, 1); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		l.Quick()
		if len(l.Status().Outgoing) > 0 {
			break
		}
		out := l.out
		l.out = nil
		for _, msg := range out {
			to := m.posts[msg.GetTo()]
			to.Step(msg)
			to.Process()
			back := to.out
			to.out = nil
			for _, msg := range back {
				l.Step(msg)
			}
		}
	}
	if len(l.Status().Outgoing) == 0 || !l.behind {
		t.Fatalf("the joint configuration is to be applied, and raft not told: %+v", l.Status())
	}
	m.now = m.now.Add(tick20)
	l.Tick(m.now)
	m.pass(50 * tick20)
	if st := l.Status(); len(st.Outgoing) > 0 {
		t.Errorf("it is never left: %+v", st)
	}
}
