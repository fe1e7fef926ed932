package replica

import (
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestTwoSnapshots: a snapshot that comes when another one is read and raft has not taken it yet
// is lost, and the first one holds.
func TestTwoSnapshots(t *testing.T) {
	r, _ := newStuck(t)
	snap := func(index uint64) *pb.Message {
		s := Boot(map[uint64]string{1: "1", 2: "2", 3: "3"}).Snapshot
		s.Metadata.Index, s.Metadata.Term = new(index), new(uint64(5))
		return &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)),
			Term: new(uint64(5)), Snapshot: s}
	}
	give(r, snap(100))
	give(r, snap(200))
	for range 3 {
		r.Process()
		r.Saved(nil)
	}
	if r.Err() != nil || r.Status().Applied != 100 || r.told != 100 {
		t.Errorf("applied %d, %v", r.Status().Applied, r.Err())
	}
}

// TestSnapshotAtChange: raft may ask for a snapshot while it applies a change of membership. It
// gets one later, which has the new members and voters.
func TestSnapshotAtChange(t *testing.T) {
	for name, change := range map[string]func(l *post) error{
		"single": func(l *post) error { return l.Change(Add, 4, "d", 1) },
		"joint":  func(l *post) error { return l.Reconfigure([]Member{{Add, 4, "d"}, {Add, 5, "e"}}, 1) },
	} {
		t.Run(name, func(t *testing.T) { snapshotAtChange(t, change) })
	}
}

func snapshotAtChange(t *testing.T, change func(l *post) error) {
	m := newMesh(t, Config{KeepEntries: 5}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.cut[3] = true
	for i := range uint64(20) { // replica 3 needs a snapshot then
		l.Propose(putBytes(s, i+1, "v"), 2)
		m.settle()
	}
	if err := change(l); err != nil {
		t.Fatal(err)
	}
	m.carry()        // replica 2 has answered
	l.Unreachable(3) // so raft tries again what it has for replica 3, and that is a snapshot
	before := l.applied
	l.Process()
	clear(m.cut)
	m.pass(100 * time.Millisecond)
	sent := 0
	for _, snap := range m.snaps {
		at, conf := snap.GetMetadata().GetIndex(), snap.GetMetadata().GetConfState()
		if at < before {
			continue
		}
		sent++
		members, _, ok := parseMembers(snap.GetData())
		if _, listed := members[4]; !ok || !listed || !slices.Contains(conf.GetVoters(), 4) {
			t.Errorf("the snapshot at %d, %d before, has voters %v and members %v", at, before, conf,
				members)
		}
	}
	if sent == 0 || l.applied <= before {
		t.Fatalf("no snapshot is made at %d, after %d", l.applied, before)
	}
}

// removal is an entry that removes replica 3 by way of a joint configuration.
func removal(t *testing.T, index uint64) *pb.Entry {
	t.Helper()
	data, err := proto.Marshal(&pb.ConfChangeV2{
		Transition: pb.ConfChangeTransitionJointExplicit.Enum(),
		Changes: []*pb.ConfChangeSingle{
			{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(3))},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Index: new(index), Term: new(uint64(5)),
		Data: data}
}

// TestSnapshotOvertakes: a change of membership that waits for the disk is in a snapshot that comes
// meanwhile. It is not applied to the snapshot's members, nor to its state; it is, if raft does not
// take the snapshot.
func TestSnapshotOvertakes(t *testing.T) {
	joint := &pb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2, 3}}
	for _, tt := range []struct {
		index   uint64 // of the snapshot
		applied uint64
		early   bool // the disk knows of the commit before raft hands the snapshot on
	}{{100, 100, false}, {100, 100, true}, {3, 3, false}, {3, 3, true}, {2, 3, false}} {
		r, h := newStuck(t)
		app := func(prev, term, commit uint64, entries ...*pb.Entry) {
			step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
				Index: &prev, LogTerm: &term, Commit: &commit, Entries: entries})
		}
		app(1, 1, 1, &pb.Entry{Type: pb.EntryNormal.Enum(), Index: new(uint64(2)), Term: new(uint64(5))},
			removal(t, 3))
		r.Saved(nil)
		r.Process()
		app(3, 5, 3)
		if len(r.commits) == 0 || r.applied > 2 || !r.saving {
			t.Fatalf("nothing waits: %+v", r.Status())
		}
		s := Boot(map[uint64]string{1: "1", 2: "2", 3: "3"}).Snapshot
		s.Metadata.Index, s.Metadata.Term, s.Metadata.ConfState = new(tt.index), new(uint64(5)), joint
		give(r, &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)),
			Term: new(uint64(5)), Snapshot: s})
		if !tt.early {
			r.Process()
		}
		for saves := 0; saves != h.saves; {
			saves = h.saves
			r.Saved(nil)
			r.Process()
		}
		if st := r.Status(); r.Err() != nil || st.Applied != tt.applied || len(st.Outgoing) != 3 ||
			len(r.commits) > 0 {
			t.Errorf("a snapshot at %d: %v, %+v", tt.index, r.Err(), st)
		}
	}
}
