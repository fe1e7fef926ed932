package replica

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestAnswersFindTheirSender: what answers a message goes to its sender, though a message of
// another replica came before the answer left. Raft's answer refers to the message's sender.
func TestAnswersFindTheirSender(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	s := m.session(l)
	m.settle()
	l.Propose(putBytes(s, 1, "a"), 1)
	l.Process()
	f.out = nil
	var p Parser
	step := func(msg *pb.Message) {
		got, _, err := p.Parse(AppendMessage(nil, msg))
		if err != nil {
			t.Fatal(err)
		}
		f.Step(got)
	}
	for _, msg := range l.out {
		if msg.GetType() == pb.MsgApp && msg.GetTo() == 2 {
			step(msg)
		}
	}
	step(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(3)), To: new(uint64(2)),
		Term: new(f.term)})
	f.Process()
	if len(f.out) != 1 || f.out[0].GetType() != pb.MsgAppResp || f.out[0].GetTo() != 1 {
		t.Errorf("%v: want an answer to replica 1", f.out)
	}
}

// TestSenders: a Parser remembers some senders only, the newest among them, and is right about all.
func TestSenders(t *testing.T) {
	var p Parser
	var kept []*uint64
	for id := range uint64(3 * maxSenders) {
		kept = append(kept, p.sender(id))
	}
	for id, s := range kept {
		if *s != uint64(id) {
			t.Fatalf("sender %d is %d", id, *s)
		}
	}
	if last := len(kept) - 1; p.sender(uint64(last)) != kept[last] || len(p.senders) > maxSenders {
		t.Errorf("%d senders are kept, and the last one is forgotten", len(p.senders))
	}
	if n := testing.AllocsPerRun(100, func() { p.sender(1) }); n != 0 {
		t.Errorf("a known sender allocates %v times", n)
	}
}
