package replica

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// sentTo are the receivers of MsgApps with entries among what a post has sent.
func (p *post) sentTo() (to []uint64) {
	for _, m := range p.out {
		if m.GetType() == pb.MsgApp && len(m.Entries) > 0 {
			to = append(to, m.GetTo())
		}
	}
	slices.Sort(to)
	return to
}

// bytesOf returns the messages that a post has sent, as bytes, in the order of receivers.
func (p *post) bytesOf() (b []byte) {
	for to := uint64(1); to < 16; to++ {
		for _, m := range p.out {
			if m.GetTo() == to {
				b = AppendMessage(b, m)
			}
		}
	}
	return b
}

// TestEarlySame: early messages are those that raft makes, byte for byte, and so is all that
// follows. In one of two clusters nothing is said early.
func TestEarlySame(t *testing.T) {
	var sent [2][]byte
	for i := range sent {
		m := newMesh(t, Config{}, 1, 2, 3)
		l, f := m.posts[1], m.posts[2]
		s := m.session(l)
		quick := func(p *post) {
			p.early.calm = p.early.calm && i == 0
			p.Quick()
			if said := p.early.kind != earlyNone; said != (i == 0) {
				t.Fatalf("cluster %d: said early: %v", i, said)
			}
			p.Process()
			sent[i] = append(sent[i], p.bytesOf()...)
		}
		seq := uint64(0)
		for _, n := range []int{1, 64, 2, 1} {
			for range n {
				seq++
				l.Propose(putBytes(s, seq, "some value"), seq)
			}
			quick(l)
			out := l.out
			l.out = nil
			for _, msg := range out {
				m.posts[msg.GetTo()].Step(msg)
			}
			quick(f)
			for _, msg := range f.out {
				l.Step(msg)
			}
			f.out = nil
			quick(l)
			m.settle()
			if l.answers[seq].Status != kv.OK {
				t.Fatalf("%+v", l.answers[seq])
			}
		}
		for id, p := range m.posts {
			if p.Err() != nil || !bytes.Equal(p.image(), l.image()) {
				t.Errorf("replica %d: %v, or its state is another", id, p.Err())
			}
		}
	}
	if !bytes.Equal(sent[0], sent[1]) {
		t.Errorf("%d bytes are sent, and raft sends %d", len(sent[0]), len(sent[1]))
	}
}

// heavy is more writes than an early message takes.
func heavy() (b []byte) {
	for len(b) <= maxEarly {
		b = append(b, putBytes(1, 1, "x")...)
	}
	return b
}

// TestEarlyAppendStates: proposals are sent early to the followers for which it is certain what
// raft sends, and to nobody if it may refuse them. Raft agrees in each case.
func TestEarlyAppendStates(t *testing.T) {
	big := heavy()
	open := (&kv.Command{Op: kv.Open, Cluster: 1}).Append(nil) // it shares no entry
	for name, c := range map[string]struct {
		make func(m *mesh, l *post, s uint64)
		want []uint64 // who gets it early
	}{
		"steady": {func(*mesh, *post, uint64) {}, []uint64{2, 3}},
		"read":   {func(_ *mesh, l *post, _ uint64) { l.Read(theKey(), false, 99) }, nil},
		"probe":  {func(_ *mesh, l *post, _ uint64) { l.Unreachable(3); l.Process() }, []uint64{2}},
		"ticked": {func(m *mesh, l *post, _ uint64) {
			m.now = m.now.Add(tick20)
			l.Tick(m.now)
		}, nil},
		"large": {func(_ *mesh, l *post, _ uint64) { l.Propose(big, 98) }, nil},
		"small": {func(_ *mesh, l *post, _ uint64) {
			for i := range uint64(maxEarly/(len(open)+entHeader) + 1) {
				l.Propose(open, 1000+i)
			}
		}, nil},
		"settled": {func(_ *mesh, l *post, _ uint64) { l.Propose(big, 98); l.Process() }, nil},
		"transfer": {func(m *mesh, l *post, _ uint64) {
			m.cut[3] = true
			l.Propose(putBytes(1, 1, "x"), 98)
			m.settle()
			l.Transfer(3)
			m.settle()
		}, nil},
		"hand over": {func(m *mesh, l *post, _ uint64) {
			m.cut[2], m.cut[3] = true, true
			l.Propose(putBytes(1, 1, "x"), 98)
			m.settle()
			_ = l.Change(Remove, 1, "", 97)
			m.settle()
		}, nil},
		"change": {func(_ *mesh, l *post, _ uint64) {
			if err := l.Change(Learner, 4, "d", 97); err != nil {
				panic(err)
			}
			l.Process()
		}, nil},
		"joint": {func(m *mesh, l *post, _ uint64) {
			if err := l.Reconfigure([]Member{{Remove, 3, ""}}, 97); err != nil {
				panic(err)
			}
			m.settle()
		}, nil},
		"many": {func(m *mesh, l *post, s uint64) {
			m.cut[2], m.cut[3] = true, true
			for i := range uint64(maxInflight) {
				l.Propose(putBytes(s, i+1, "v"), i+1000)
			}
			l.Process()
		}, nil},
		"unanswered": {func(m *mesh, l *post, s uint64) {
			m.cut[3] = true
			for i := range uint64(maxInflight) {
				l.Propose(putBytes(s, i+1, "v"), i+1000)
				m.settle()
			}
		}, []uint64{2}},
		"few unanswered": {func(m *mesh, l *post, s uint64) {
			m.cut[3] = true
			for i := range uint64(maxInflight - 1) {
				l.Propose(putBytes(s, i+1, "v"), i+1000)
				m.settle()
			}
		}, []uint64{2, 3}},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		s := m.session(l)
		c.make(m, l, s)
		l.out = nil
		l.Propose(putBytes(s, 1000, "last"), 1)
		l.Quick()
		got := l.sentTo()
		if l.early.kind == earlyNone {
			got = nil
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: early to %v, want %v", name, got, c.want)
		}
		l.Process()
		if l.Err() != nil {
			t.Errorf("%s: %v", name, l.Err())
		}
		clear(m.cut)
		m.pass(40 * tick20)
		if _, ok := l.answers[1]; !ok || l.Err() != nil {
			t.Errorf("%s: answered %v; %v", name, ok, l.Err())
		}
	}
}

// TestEarlyBroken: a replica of which raft does not say what was said ends. Whoever waits hears
// that the outcome is unknown.
func TestEarlyBroken(t *testing.T) {
	for name, spoil := range map[string]func(l *post){
		"refused": func(l *post) { l.rn.TransferLeader(2) },
		"index":   func(l *post) { _ = l.rn.Propose([]byte("another")) },
		"unsent":  func(l *post) { l.early.to = append(l.early.to, 9) },
		"commit":  func(l *post) { l.early.msg.commit-- },
		"bytes":   func(l *post) { l.settle(); l.early.msg.m.Entries[0].Data = []byte("others") },
		"term":    func(l *post) { l.settle(); l.early.msg.m.Entries[0].Term = new(uint64(1)) },
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		s := m.session(l)
		l.Propose(putBytes(s, 1, "a"), 1)
		if l.Quick(); l.early.kind != earlyAppend {
			t.Fatalf("%s: not said early", name)
		}
		spoil(l)
		l.Process()
		if !errors.Is(l.Err(), ErrEarly) || l.answers[1].Status != kv.Retry {
			t.Errorf("%s: %v, answer %+v", name, l.Err(), l.answers[1])
		}
	}
}

// TestEarlyAnswerStates: a follower answers early what continues its log in its leader's term, and
// nothing else. Raft agrees.
func TestEarlyAnswerStates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *post, x *pb.Message)
		want   bool
	}{
		"next":     {func(*post, *pb.Message) {}, true},
		"old term": {func(f *post, x *pb.Message) { x.Term = new(f.term - 1) }, false},
		"new term": {func(f *post, x *pb.Message) { x.Term = new(f.term + 1) }, false},
		"other":    {func(_ *post, x *pb.Message) { x.From = new(uint64(3)) }, false},
		"gap":      {func(_ *post, x *pb.Message) { x.Index = new(x.GetIndex() + 1) }, false},
		"behind":   {func(_ *post, x *pb.Message) { x.Index = new(x.GetIndex() - 1) }, false},
		"log term": {func(_ *post, x *pb.Message) { x.LogTerm = new(x.GetLogTerm() - 1) }, false},
		"empty":    {func(_ *post, x *pb.Message) { x.Entries = nil }, false},
		"indexes": {func(_ *post, x *pb.Message) {
			x.Entries[0].Index = new(uint64(1 << 20))
		}, false},
		"snapshot": {func(f *post, _ *pb.Message) { f.log.loading = &loading{} }, false},
		"no rest":  {func(f *post, _ *pb.Message) { f.Unreachable(1) }, false},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l, f := m.posts[1], m.posts[2]
		s := m.session(l)
		l.Propose(putBytes(s, 1, "a"), 1)
		l.Process()
		x := l.out[slices.IndexFunc(l.out, func(x *pb.Message) bool { return x.GetTo() == 2 })]
		c.change(f, x)
		f.Step(x)
		f.Quick()
		if said := f.early.kind == earlyAnswer; said != c.want {
			t.Errorf("%s: answered early: %v", name, said)
		}
		if name == "indexes" {
			continue // raft takes none such
		}
		f.log.loading = nil
		f.Process()
		answers := 0
		for _, x := range f.out {
			if x.GetType() == pb.MsgAppResp {
				answers++
			}
		}
		if f.Err() != nil || answers != 1 {
			t.Errorf("%s: %d answers; %v", name, answers, f.Err())
		}
	}
}

// TestEarlyAnswerBroken: a follower whose raft has another answer ends.
func TestEarlyAnswerBroken(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Quick()
	f.Step(l.out[0])
	f.Quick()
	f.early.msg.index++
	if f.Process(); !errors.Is(f.Err(), ErrEarly) {
		t.Error(f.Err())
	}
}

// TestEarlySilent: a replica ends whose raft says nothing at all, not only with its next Ready.
func TestEarlySilent(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Quick()
	f.Step(l.out[0])
	f.Quick()
	f.inbox.clear()
	if f.Process(); !errors.Is(f.Err(), ErrEarly) {
		t.Error(f.Err())
	}
}

// TestEarlyGather: writes that gather do not stop what is said early of those before them, and are
// sent early when they no longer gather.
func TestEarlyGather(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.settle()
	seq := uint64(0)
	propose := func(n int) {
		for range n {
			seq++
			l.Propose(putBytes(s, seq, "v"), seq)
		}
	}
	answer := func(id uint64) bool {
		l.Step(l.answerOf(id, l.log.last()))
		return l.Quick()
	}
	propose(few + 1)
	l.Process()
	propose(2)
	if l.Quick(); l.early.kind != earlyNone || len(l.offers.tags) != 2 {
		t.Errorf("said early %d, %d gather", l.early.kind, len(l.offers.tags))
	}
	l.Process()
	if answer(2); l.early.kind != earlyCommit || l.answers[few+1].Status != kv.OK {
		t.Errorf("said early %d, %+v", l.early.kind, l.answers[few+1])
	}
	if len(l.offers.tags) != 2 {
		t.Errorf("%d wait", len(l.offers.tags))
	}
	l.Process()
	if n := len(l.offers.tags); n != 0 || l.waiting.len() != 2 {
		t.Errorf("%d wait, %d are on their way", n, l.waiting.len())
	}
	propose(1)
	if l.Quick(); l.early.kind != earlyAppend || len(l.early.given.tags) != 1 {
		t.Errorf("said early %d", l.early.kind)
	}
	m.settle()
	if got := l.answers[seq].Status; got != kv.OK || l.Err() != nil {
		t.Errorf("%v, %v", got, l.Err())
	}
}

// TestEarlyHeartbeat: a leader may say that the entries are committed that were answered early.
func TestEarlyHeartbeat(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Quick()
	f.Step(l.out[0])
	f.Quick()
	last := f.early.index
	var p Parser // which uses its memory again
	for range 20 {
		b := AppendMessage(nil, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(1)),
			To: new(uint64(2)), Term: new(f.term), Commit: &last})
		x, _, err := p.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		f.Step(x)
		other := &pb.Message{Type: pb.MsgApp.Enum(), To: new(uint64(9))}
		_, _, _ = p.Parse(AppendMessage(nil, other))
	}
	f.Process()
	answers := map[pb.MessageType]int{}
	for _, x := range f.out {
		answers[x.GetType()]++
	}
	if f.Err() != nil || f.applied != last || f.early.index != 0 ||
		answers[pb.MsgHeartbeatResp] != 20 {
		t.Errorf("%v, %d of %d applied, %v", f.Err(), f.applied, last, answers)
	}
}

// TestEarlyCommitStates: a leader applies early what an answer commits by Raft's rule: the last
// entry is of its term, and a majority of the voters has it.
func TestEarlyCommitStates(t *testing.T) {
	voters := func(ids ...uint64) func(*post, *pb.Message) {
		return func(l *post, _ *pb.Message) { l.log.conf.Voters = ids }
	}
	for name, c := range map[string]struct {
		change func(l *post, x *pb.Message)
		want   bool
	}{
		"answer":    {func(*post, *pb.Message) {}, true},
		"reject":    {func(_ *post, x *pb.Message) { x.Reject = new(true) }, false},
		"old term":  {func(l *post, x *pb.Message) { x.Term = new(l.term - 1) }, false},
		"old entry": {func(l *post, x *pb.Message) { x.Index = new(l.applied) }, false},
		"beyond":    {func(l *post, x *pb.Message) { x.Index = new(l.log.last() + 1) }, false},
		"other":     {func(_ *post, x *pb.Message) { x.Type = pb.MsgHeartbeatResp.Enum() }, false},
		"no voter":  {voters(1, 3, 4), false},
		"five":      {voters(1, 2, 3, 4, 5), false},
		"four":      {voters(1, 2, 3, 4), false},
		"joint": {func(l *post, _ *pb.Message) {
			l.log.conf.VotersOutgoing = []uint64{1, 2, 4}
		}, false},
		"round": {func(l *post, _ *pb.Message) { l.asked.push(batch{}) }, false},
		"term": {func(l *post, _ *pb.Message) {
			l.log.entries[len(l.log.entries)-1].Term = new(uint64(1))
		}, false},
		"type": {func(l *post, _ *pb.Message) {
			l.log.entries[len(l.log.entries)-1].Type = pb.EntryConfChange.Enum()
		}, false},
	} {
		m := newMesh(t, Config{}, 1, 2, 3)
		l := m.posts[1]
		l.Propose(putBytes(m.session(l), 1, "a"), 1)
		l.Process()
		x := l.answerOf(2, l.log.last())
		c.change(l, x)
		if !l.early.calm {
			t.Fatalf("%s: not at rest", name)
		}
		l.inbox.put(x)
		if said := l.sayEarly(); said != c.want || (l.answers[1].Status == kv.OK) != c.want {
			t.Errorf("%s: applied early: %v, %+v", name, said, l.answers[1])
		}
	}
}

// TestEarlyCommitFive: of five voters two must answer.
func TestEarlyCommitFive(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3, 4, 5)
	l := m.posts[1]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Process()
	answer := func(id uint64) bool {
		l.Step(l.answerOf(id, l.log.last()))
		l.Quick()
		return l.early.kind == earlyCommit
	}
	if answer(2) {
		t.Error("one of four followers is enough")
	}
	l.Process()
	if answer(2) {
		t.Error("one of four followers counts twice")
	}
	l.Process()
	if !answer(3) || l.answers[1].Status != kv.OK {
		t.Error("two of four followers are not enough")
	}
	if l.Process(); l.Err() != nil || l.told != l.applied {
		t.Error(l.Err())
	}
}

// TestEarlyCommitDeposed: a leader that has a message of a later term before it asks raft first.
func TestEarlyCommitDeposed(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Process()
	for i, term := range []uint64{l.term + 1, l.term} {
		x := l.answerOf(uint64(3-i), l.log.last())
		x.Term = &term
		l.Step(x)
	}
	if l.Quick(); l.early.kind != earlyNone {
		t.Error("applied early")
	}
	if l.Process(); l.Err() != nil || l.Leads() || l.answers[1].Status != kv.Retry {
		t.Errorf("%v, leads %v, %+v", l.Err(), l.Leads(), l.answers[1])
	}
}

// TestEarlyCommitBroken: a leader whose raft does not find committed what is applied ends.
func TestEarlyCommitBroken(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	l.Propose(putBytes(m.session(l), 1, "a"), 1)
	l.Process()
	l.Step(l.answerOf(2, l.log.last()))
	if l.Quick(); l.early.kind != earlyCommit {
		t.Fatal("not applied early")
	}
	l.early.index++
	if l.Process(); !errors.Is(l.Err(), ErrEarly) {
		t.Error(l.Err())
	}
}

// TestStale: nobody waits for a further follower's answer, so the next event is still quick.
func TestStale(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	l.Propose(putBytes(s, 1, "a"), 1)
	m.settle()
	answer := func(id, index uint64) bool {
		l.Step(l.answerOf(id, index))
		return l.Quick()
	}
	l.Propose(putBytes(s, 2, "b"), 2)
	l.Process()
	if answer(3, l.applied) {
		t.Error("a stale answer is not left for later")
	}
	if !answer(2, l.log.last()) || l.answers[2].Status != kv.OK {
		t.Errorf("behind it: %+v", l.answers[2])
	}
	if l.Process(); l.Err() != nil || l.told != l.applied {
		t.Error(l.Err())
	}
}
