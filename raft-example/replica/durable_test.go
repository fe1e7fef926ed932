package replica

import (
	"testing"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// stuck is a host whose disk never ends a write by itself, and that keeps what was sent.
type stuck struct {
	sent  []pb.MessageType
	saves int
}

func (h *stuck) Send(m *pb.Message) { h.sent = append(h.sent, m.GetType()) }

func (h *stuck) Answer(uint64, *kv.Answer)                        {}
func (h *stuck) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot)    { h.saves++ }
func (h *stuck) SendSnapshot(*pb.Message, *kv.Saver)              {}
func (h *stuck) Prepare(*pb.Snapshot, *kv.Saver)                  {}
func (h *stuck) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry) {}
func (h *stuck) Durable() bool                                    { return true }

// taken returns how many messages of a type were sent since the last call.
func (h *stuck) taken(t pb.MessageType) (n int) {
	for _, s := range h.sent {
		if s == t {
			n++
		}
	}
	return n
}

func newStuck(t *testing.T) (*Replica, *stuck) {
	t.Helper()
	h := &stuck{}
	r, err := New(Config{ID: 1, CommitDelay: -1}, h,
		Boot(map[uint64]string{1: "1", 2: "2", 3: "3"}), 0)
	if err != nil {
		t.Fatal(err)
	}
	return r, h
}

func step(r *Replica, m *pb.Message) {
	m.To = new(uint64(1))
	r.Step(m)
	r.Process()
}

// TestFollowerAnswersWhileSaving: while the disk is at work a follower answers heartbeats, and
// an answer that promises durability waits for the write that it promises, not for an earlier
// one.
func TestFollowerAnswersWhileSaving(t *testing.T) {
	r, h := newStuck(t)
	app := func(index, term uint64) {
		step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
			Index: new(index - 1), LogTerm: new(term),
			Entries: []*pb.Entry{{Type: pb.EntryNormal.Enum(), Index: new(index), Term: new(uint64(5))}}})
	}
	app(2, 1)
	app(3, 5)
	if h.saves != 1 || h.taken(pb.MsgAppResp) != 0 {
		t.Fatalf("%d saves, sent %v: entries are acknowledged that are not durable", h.saves, h.sent)
	}
	for range 3 {
		step(r, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
			Commit: new(uint64(1))})
	}
	if h.taken(pb.MsgHeartbeatResp) != 3 {
		t.Errorf("sent %v: heartbeats wait for the disk", h.sent)
	}
	for saves := 2; saves <= 3; saves++ {
		r.Saved(nil)
		r.Process()
		if h.taken(pb.MsgAppResp) != saves-1 {
			t.Errorf("after %d writes: sent %v", saves-1, h.sent)
		}
	}
	if h.saves != 2 {
		t.Errorf("%d saves, want 2", h.saves)
	}
}

// TestVoteWaitsForDisk: a vote leaves only when it is durable.
func TestVoteWaitsForDisk(t *testing.T) {
	r, h := newStuck(t)
	step(r, &pb.Message{Type: pb.MsgVote.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Index: new(uint64(9)), LogTerm: new(uint64(4))})
	if h.taken(pb.MsgVoteResp) != 0 || h.saves != 1 {
		t.Fatalf("%d saves, sent %v", h.saves, h.sent)
	}
	r.Saved(nil)
	r.Process()
	if h.taken(pb.MsgVoteResp) != 1 {
		t.Errorf("sent %v", h.sent)
	}
}

// TestLeaderBeatsWhileSaving: heartbeats leave while the leader's disk is at work, and writes
// go to the followers before they are durable here.
func TestLeaderBeatsWhileSaving(t *testing.T) {
	r, h := newStuck(t)
	r.Campaign()
	r.Process()
	vote := func(typ pb.MessageType, term uint64) {
		step(r, &pb.Message{Type: typ.Enum(), From: new(uint64(2)), Term: new(term)})
	}
	vote(pb.MsgPreVoteResp, 2)
	vote(pb.MsgVoteResp, 2)
	r.Saved(nil)
	r.Process()
	if !r.Leads() || !r.Saving() {
		t.Fatalf("%+v", r.Status())
	}
	h.sent = nil
	now := monotime.Time(0)
	for range 3 {
		now = now.Add(r.TickTime())
		r.Tick(now)
		r.Process()
	}
	if h.taken(pb.MsgHeartbeat) != 6 {
		t.Errorf("sent %v: heartbeats wait for the disk", h.sent)
	}
	step(r, &pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(2)), Term: new(uint64(2)),
		Index: new(uint64(2))})
	if _, ok := r.Propose((&kv.Command{Op: kv.Open}).Append(nil), 1); !ok {
		t.Fatal("not the leader")
	}
	h.sent = nil
	r.Process()
	if h.taken(pb.MsgApp) == 0 || h.saves != 2 {
		t.Errorf("%d saves, sent %v", h.saves, h.sent)
	}
}

// TestMembershipWaitsForDisk: a change of membership takes effect when this disk knows that it
// is committed, and what is committed behind it comes after it.
func TestMembershipWaitsForDisk(t *testing.T) {
	r, h := newStuck(t)
	cc := &pb.ConfChange{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(uint64(4)),
		Context: []byte("4")}
	_, data, err := pb.MarshalConfChange(cc)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(i uint64, typ pb.EntryType, data []byte) *pb.Entry {
		return &pb.Entry{Type: typ.Enum(), Index: new(i), Term: new(uint64(5)), Data: data}
	}
	step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Index: new(uint64(1)), LogTerm: new(uint64(1)),
		Entries: []*pb.Entry{entry(2, pb.EntryNormal, nil), entry(3, pb.EntryConfChange, data),
			entry(4, pb.EntryNormal, nil)}})
	r.Saved(nil)
	r.Process()
	step(r, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Commit: new(uint64(4))})
	if _, is := r.Member(4); is || r.Status().Applied != 1 || h.saves != 2 {
		t.Fatalf("%d saves: the change is in effect before the disk knows of it: %+v",
			h.saves, r.Status())
	}
	r.Saved(nil)
	r.Process()
	if _, is := r.Member(4); !is || r.Status().Applied != 4 {
		t.Errorf("%+v", r.Status())
	}
}
