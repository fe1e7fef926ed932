package replica

import (
	"errors"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestEntriesFit: a list of entries has as many as fit, to the byte, and at least one.
func TestEntriesFit(t *testing.T) {
	l := &memlog{}
	for i := range uint64(4) {
		e := &pb.Entry{Index: new(i + 1), Term: new(uint64(1)), Data: make([]byte, 10*i)}
		if err := l.Append([]*pb.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		size uint64
		want int
	}{{0, 1}, {24, 1}, {57, 1}, {58, 2}, {101, 2}, {102, 3}, {155, 3}, {156, 4}, {1 << 62, 4}} {
		if list, err := l.Entries(1, 5, c.size); err != nil || len(list) != c.want {
			t.Errorf("%d entries in %d bytes, want %d; %v", len(list), c.size, c.want, err)
		}
	}
	for _, c := range [][2]uint64{{2, 2}, {3, 2}, {5, 5}, {4, 6}, {0, 2}} {
		if list, err := l.Entries(c[0], c[1], 1<<62); err == nil {
			t.Errorf("%d entries from %d to before %d", len(list), c[0], c[1])
		}
	}
}

// TestLostLog: a replica whose leader has seen entries that it does not have ends, and says why.
// The message of an earlier term says nothing.
func TestLostLog(t *testing.T) {
	for name, c := range map[string]struct {
		term, commit uint64
		lost         bool
	}{"has all": {5, 2, false}, "misses one": {5, 3, true}, "a later term": {6, 3, true},
		"an earlier term": {4, 3, false}} {
		r, _ := newStuck(t)
		entry := &pb.Entry{Type: pb.EntryNormal.Enum(), Index: new(uint64(2)), Term: new(uint64(5))}
		step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
			Index: new(uint64(1)), LogTerm: new(uint64(1)), Entries: []*pb.Entry{entry}})
		r.Saved(nil)
		r.Process()
		step(r, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), Term: &c.term,
			Commit: &c.commit})
		if errors.Is(r.Err(), ErrLogLost) != c.lost {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
}

// TestLeaseVoidUnderWay: a round that began before a lease was ended begins none.
func TestLeaseVoidUnderWay(t *testing.T) {
	m, l := leasedMesh(t)
	m.now = m.now.Add(l.cfg.Lease)
	if m.atOnce(l, 5) { // it begins a round
		t.Fatal("the lease did not end")
	}
	l.Now(m.now - 1) // the clock goes back, and on again
	l.Now(m.now)
	m.settle()
	if _, ok := l.answers[5]; !ok {
		t.Fatal("the round has not ended")
	}
	if m.atOnce(l, 6) {
		t.Error("the round of before began a lease")
	}
	m.settle()
	if !m.atOnce(l, 7) {
		t.Error("a later round began none")
	}
}

// TestChangeSavedOnce: a change of membership that waited for a snapshot is applied after one write
// of the commit index that the disk does not know yet, whatever that write has besides.
func TestChangeSavedOnce(t *testing.T) {
	r, h := newStuck(t)
	cc := &pb.ConfChange{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(uint64(4)),
		Context: []byte("4")}
	_, data, err := pb.MarshalConfChange(cc)
	if err != nil {
		t.Fatal(err)
	}
	step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Index: new(uint64(1)), LogTerm: new(uint64(1)), Entries: []*pb.Entry{
			{Type: pb.EntryNormal.Enum(), Index: new(uint64(2)), Term: new(uint64(5))},
			{Type: pb.EntryConfChange.Enum(), Index: new(uint64(3)), Term: new(uint64(5)), Data: data}}})
	r.Saved(nil)
	r.Process()
	s := Boot(map[uint64]string{1: "1", 2: "2", 3: "3"}).Snapshot
	s.Metadata.Index, s.Metadata.Term = new(uint64(2)), new(uint64(5))
	give(r, &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)),
		Term: new(uint64(5)), Snapshot: s})
	r.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: new(uint64(1)), From: new(uint64(2)),
		Term: new(uint64(5)), Commit: new(uint64(3))})
	// Raft does not take the snapshot: it has more already.
	before := h.saves
	r.Process()
	for i := 0; r.Saving() && i < 10; i++ {
		r.Saved(nil)
		r.Process()
	}
	if _, is := r.Member(4); !is || r.Err() != nil || h.saves != before+1 {
		t.Errorf("a member: %v; %d writes, %v", is, h.saves-before, r.Err())
	}
}

// TestPlainCommits: only a change of membership waits until the disk knows that it is committed.
func TestPlainCommits(t *testing.T) {
	typ := func(changes ...bool) (list []*pb.Entry) {
		for i, c := range changes {
			e := &pb.Entry{Type: pb.EntryNormal.Enum(), Index: new(uint64(i + 2)), Term: new(uint64(5))}
			if c {
				e.Type = pb.EntryConfChangeV2.Enum()
			}
			list = append(list, e)
		}
		return list
	}
	for i, c := range []struct {
		list []*pb.Entry
		want uint64
	}{{typ(), 0}, {typ(false, false), 0}, {typ(true, false), 2}, {typ(false, true, true, false), 4}} {
		if got := lastChange(c.list); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
	r, h := newStuck(t)
	step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Index: new(uint64(1)), LogTerm: new(uint64(1)), Entries: typ(false, false)})
	r.Saved(nil)
	r.Process()
	step(r, &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
		Commit: new(uint64(3))})
	if r.Status().Applied != 3 || h.saves != 1 {
		t.Errorf("%d writes, %+v", h.saves, r.Status())
	}
}

// TestRestartedVotes: without leases a replica that starts again votes at once.
func TestRestartedVotes(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	start := Boot(map[uint64]string{1: "a", 2: "a", 3: "a"})
	start.Hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	p := m.add(2, start)
	p.Step(&pb.Message{Type: pb.MsgVote.Enum(), To: new(uint64(2)), From: new(uint64(3)),
		Term: new(uint64(9)), LogTerm: new(uint64(8)), Index: new(uint64(50))})
	p.Process()
	if len(p.out) != 1 || p.out[0].GetType() != pb.MsgVoteResp || p.out[0].GetReject() {
		t.Errorf("%v", p.out)
	}
}

// TestFarIndex: indexes that a message may have, and the next one.
func TestFarIndex(t *testing.T) {
	for index, ok := range map[uint64]bool{1 << 62: true, 1<<62 + 1: false} {
		b := AppendMessage(nil, &pb.Message{Type: pb.MsgHeartbeat.Enum(), Index: &index})
		if _, _, err := ParseMessage(b); (err == nil) != ok {
			t.Errorf("%d: %v", index, err)
		}
	}
}
