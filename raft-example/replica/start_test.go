package replica

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestStartCommit: a replica that starts again knows as committed what its hard state says, as far
// as its log goes: that may have lost its end. A snapshot is committed at least.
func TestStartCommit(t *testing.T) {
	for _, c := range []struct{ entries, commit, want uint64 }{
		{0, 9, 1}, {3, 9, 4}, {3, 4, 4}, {3, 3, 3}, {3, 0, 1}, {1, 2, 2},
	} {
		from := Boot(map[uint64]string{1: "1", 2: "2", 3: "3"})
		from.Hard = &pb.HardState{Term: new(uint64(5)), Vote: new(uint64(2)), Commit: &c.commit}
		for i := range c.entries {
			from.Entries = append(from.Entries, &pb.Entry{Type: pb.EntryNormal.Enum(),
				Index: new(i + 2), Term: new(uint64(5))})
		}
		r, err := New(Config{ID: 1}, &stuck{}, from, 0)
		if err != nil {
			t.Fatal(err)
		}
		h, _, _ := r.log.InitialState()
		if h.GetCommit() != c.want || h.GetTerm() != 5 || h.GetVote() != 2 || r.durableCommit != c.want {
			t.Errorf("%+v: %v, on the disk %d", c, h, r.durableCommit)
		}
		r.Tick(monotime.Time(r.TickTime()))
		r.Process()
		if st := r.Status(); st.Applied != c.want || st.Last != 1+c.entries || r.Err() != nil {
			t.Errorf("%+v: %+v", c, st)
		}
	}
}

// TestDefaults: what fields that are zero mean, as their comments say.
func TestDefaults(t *testing.T) {
	c, err := Config{ID: 1}.fill()
	want := Config{ID: 1, Tick: 20 * time.Millisecond, ElectionTicks: 10, KeepEntries: 10000,
		CommitDelay: 500 * time.Microsecond, GatherFor: 60 * time.Microsecond,
		SnapshotEvery: 100000, SnapshotBytes: 64 << 20, MaxWaiting: 65536}
	if err != nil || c != want {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
}

// TestOneEntryAlloc: a message with one entry of the usual size, as each write is to a follower,
// is read with one allocation.
func TestOneEntryAlloc(t *testing.T) {
	var p Parser
	for _, size := range []int{1, usualData - 1, usualData} {
		b := AppendMessage(nil, &pb.Message{Type: pb.MsgApp.Enum(), Entries: []*pb.Entry{
			{Type: pb.EntryNormal.Enum(), Index: new(uint64(1)), Data: make([]byte, size)}}})
		got := testing.AllocsPerRun(100, func() {
			if m, _, err := p.Parse(b); err != nil || len(m.Entries[0].Data) != size {
				t.Error(m, err)
			}
		})
		if got > 1 {
			t.Errorf("%d bytes: %v allocations", size, got)
		}
	}
}
