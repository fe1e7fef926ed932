package replica

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestTwoSnapshots: a snapshot that comes when another one is read and raft has not taken it yet
// is lost, and the first one holds.
func TestTwoSnapshots(t *testing.T) {
	r, _ := newStuck(t)
	snap := func(index uint64) *pb.Message {
		s := Boot(map[uint64]string{1: "1", 2: "2", 3: "3"}).Snapshot
		s.Metadata.Index, s.Metadata.Term = new(index), new(uint64(5))
		return &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(5)), Snapshot: s}
	}
	r.Step(snap(100))
	for r.Background() {
		continue
	}
	r.Step(snap(200))
	for range 3 {
		r.Process()
		r.Saved(nil)
	}
	if r.Err() != nil || r.Status().Applied != 100 {
		t.Errorf("applied %d, %v", r.Status().Applied, r.Err())
	}
}
