package node

import (
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestPieceNotSent: a piece of a snapshot that cannot be sent, here since there is no session with
// the peer, is not under way. So the transfer fails at once, the replica is told, and the peer can
// get another one.
func TestPieceNotSent(t *testing.T) {
	n, err := New(Config{Config: replica.Config{ID: 1},
		Start: replica.Boot(map[uint64]string{1: "a"})})
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(2)), From: new(uint64(1)),
		Snapshot: &pb.Snapshot{}}
	for range 2 {
		n.SendSnapshot(m, kv.NewStore().Save(nil))
		if p := n.peers[2]; p.snap != nil {
			t.Fatalf("the transfer goes on, with %d pieces under way", p.snap.out)
		}
		if len(n.ended) != 1 || n.ended[0] != (ended{2, false}) {
			t.Fatalf("the replica will hear of %v", n.ended)
		}
		n.tellEnded()
	}
}
