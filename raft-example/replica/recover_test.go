package replica

import (
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// logOf is a log of a cluster of three: a session, writes, a change of membership, and the last
// writes, which it does not know to be committed.
func logOf(t *testing.T) Start {
	t.Helper()
	s := Boot(map[uint64]string{1: "a:1", 2: "a:2", 3: "a:3"})
	s.Hard = &pb.HardState{Term: new(uint64(7)), Vote: new(uint64(2)), Commit: new(uint64(3))}
	add := func(typ pb.EntryType, data []byte) {
		s.Entries = append(s.Entries, &pb.Entry{Type: &typ, Term: new(uint64(6)),
			Index: new(uint64(len(s.Entries) + 2)), Data: data})
	}
	write := func(seq uint64, key string) []byte {
		k, err := kv.MakeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		c := kv.Command{Op: kv.Put, Session: 3, Seq: seq, Key: k}
		return c.Append(nil)
	}
	open := kv.Command{Op: kv.Open}
	add(pb.EntryNormal, nil) // a leader's first
	add(pb.EntryNormal, open.Append(nil))
	add(pb.EntryNormal, write(1, "a"))
	add(pb.EntryConfChangeV2, nil)
	add(pb.EntryNormal, append(write(2, "b"), write(3, "c")...)) // two writes in one
	return s
}

// TestRecover: a new cluster has all that the log of one replica has, its sessions too, and a
// membership of its own.
func TestRecover(t *testing.T) {
	from := logOf(t)
	members := map[uint64]string{2: "b:2"}
	s, err := Recover(from, members)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{ID: 2}, &stuck{}, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	st := r.Status()
	h, _, _ := r.log.InitialState()
	if st.Keys != 3 || st.Sessions != 1 || st.Applied != 6 || st.LastTerm != 7 ||
		h.GetTerm() != 7 ||
		!maps.Equal(st.Members, members) || len(st.Voters) != 1 || st.Voters[0] != 2 {
		t.Errorf("%+v", st)
	}
}

// TestRecoverTiming: a new cluster has the tick and the lease that the log has said last, in an
// entry or in its snapshot.
func TestRecoverTiming(t *testing.T) {
	from := logOf(t)
	for _, c := range []kv.Command{
		{Op: kv.Raise, Format: 2},
		{Op: kv.Timing, Format: 2, Seq: uint64(40 * time.Millisecond),
			Session: uint64(80 * time.Millisecond)},
	} {
		from.Entries = append(from.Entries, &pb.Entry{Type: pb.EntryNormal.Enum(),
			Term: new(uint64(6)), Index: new(uint64(len(from.Entries) + 2)), Data: c.Append(nil)})
	}
	members := map[uint64]string{2: "b:2"}
	for _, in := range []string{"entry", "snapshot"} {
		s, err := Recover(from, members)
		if err != nil {
			t.Fatal(err)
		}
		s.Snapshot.Data, _ = io.ReadAll(s.State)
		s.State = nil
		r, err := New(Config{ID: 2}, &stuck{}, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Timing(); got.Tick != 40*time.Millisecond || got.Lease != 80*time.Millisecond {
			t.Errorf("by an %s: %+v", in, got)
		}
		s.Hard = from.Hard
		from = s
	}
}

// TestRecoverBad: nothing is made of a log that cannot be read to its end.
func TestRecoverBad(t *testing.T) {
	if _, err := Recover(Start{}, nil); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	from := logOf(t)
	from.Entries[2].Data[5] = 9 // of a later format
	if _, err := Recover(from, nil); !isEntryError(err, 4) {
		t.Error(err)
	}
	from = logOf(t)
	from.Snapshot.Data[len(from.Snapshot.Data)-1]++
	if _, err := Recover(from, nil); !errors.Is(err, kv.ErrSnapshot) {
		t.Error(err)
	}
}

func isEntryError(err error, index uint64) bool {
	e, ok := errors.AsType[*kv.EntryError](err)
	return ok && e.Index == index
}
