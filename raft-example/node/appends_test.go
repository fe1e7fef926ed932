package node

import (
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestAppendsWait: while appends travel alone the next ones wait in their order, in pieces. What
// raft sends from further back takes the place of all that wait.
func TestAppendsWait(t *testing.T) {
	number := func(n uint64) *uint64 { return &n }
	message := func(index uint64) *pb.Message { // of one entry, the one behind index
		return &pb.Message{Type: pb.MsgApp.Enum(), From: number(1), To: number(2), Term: number(3),
			LogTerm: number(3), Index: number(index), Commit: number(1), Entries: []*pb.Entry{{
				Type: pb.EntryNormal.Enum(), Term: number(3), Index: number(index + 1),
				Data: make([]byte, pieceSize/3)}}}
	}
	a := appends{alone: true}
	for _, step := range []struct {
		index uint64
		want  []uint64
	}{
		{10, []uint64{10}}, {11, []uint64{10, 11}}, {12, []uint64{10, 11, 12}},
		{11, []uint64{11}}, // it was refused
		{12, []uint64{11, 12}}, {13, []uint64{11, 12, 13}}, {5, []uint64{5}},
	} {
		if !a.waits(message(step.index)) {
			t.Fatal("it does not wait behind one that travels alone")
		}
		var got []uint64
		for _, piece := range a.later {
			if len(piece) > pieceSize {
				t.Errorf("a piece has %d bytes", len(piece))
			}
			for len(piece) > 0 {
				m, rest, err := replica.ParseMessage(piece)
				if err != nil {
					t.Fatal(err)
				}
				got, piece = append(got, m.GetIndex()), rest
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after %d: %d wait, want %d", step.index, got, step.want)
		}
	}
}
