package replica

import (
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// sameLog compares all that raft can ask.
func sameLog(t *testing.T, got *memlog, want *raft.MemoryStorage) {
	t.Helper()
	first, _ := want.FirstIndex()
	last, _ := want.LastIndex()
	if f, _ := got.FirstIndex(); f != first || got.last() != last {
		t.Fatalf("the log is %d to %d, want %d to %d", f, got.last(), first, last)
	}
	for i := max(first, 3) - 3; i < last+3; i++ {
		a, err := got.Term(i)
		b, err2 := want.Term(i)
		if a != b || err != err2 {
			t.Fatalf("term of %d: %d, %v, want %d, %v", i, a, err, b, err2)
		}
	}
	if first > last {
		return
	}
	a, err := got.Entries(first, last+1, 1<<62)
	b, err2 := want.Entries(first, last+1, 1<<62)
	if err != nil || err2 != nil || len(a) != len(b) || cap(a) != len(a) {
		t.Fatalf("%d entries, %v, want %d, %v", len(a), err, len(b), err2)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("entry %d is another one", a[i].GetIndex())
		}
	}
	if a, err := got.Entries(first, last+1, 1); err != nil || len(a) != 1 {
		t.Fatalf("at least one entry: %d, %v", len(a), err)
	}
	if _, err := got.Entries(first-1, last+1, 1); err != raft.ErrCompacted {
		t.Fatal(err)
	}
}

// TestMemlog: it is as raft's own, whatever is done to both, and lists that were handed out stay.
func TestMemlog(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		l, m := &memlog{}, raft.NewMemoryStorage()
		term := uint64(1)
		var held, was []*pb.Entry
		for range 60 {
			last := l.last()
			first, _ := l.FirstIndex()
			switch r.IntN(8) {
			case 0:
				term++
				s := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(last + 1 - min(last, r.Uint64N(4))),
					Term: new(term), ConfState: &pb.ConfState{Voters: []uint64{1}}}}
				if err, err2 := l.ApplySnapshot(s), m.ApplySnapshot(s); err != err2 {
					t.Fatalf("%v, want %v", err, err2)
				}
				_, conf, _ := l.InitialState()
				_, want, _ := m.InitialState()
				if !proto.Equal(conf, want) {
					t.Fatalf("%v, want %v", conf, want)
				}
			case 1:
				i := first + r.Uint64N(last+2-first)
				if i > last { // raft's own panics
					if err := l.Compact(i); err == nil {
						t.Fatal("compacted more than there is")
					}
					continue
				}
				if err, err2 := l.Compact(i), m.Compact(i); err != err2 {
					t.Fatalf("%v, want %v", err, err2)
				}
			default:
				from := last + 1
				if r.IntN(3) == 0 {
					from -= min(last, r.Uint64N(6))
					term++
				}
				var list []*pb.Entry
				for i := range r.Uint64N(5) {
					list = append(list, &pb.Entry{Term: new(term), Index: new(from + i)})
				}
				if err, err2 := l.Append(list), m.Append(list); err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
			}
			sameLog(t, l, m)
			for i := range held {
				if held[i] != was[i] {
					t.Fatal("a list that was handed out has changed")
				}
			}
			if first, _ := l.FirstIndex(); first <= l.last() {
				held, _ = l.Entries(first, l.last()+1, 1<<62)
				was = append([]*pb.Entry(nil), held...)
			}
		}
		if l.Append([]*pb.Entry{{Index: new(l.last() + 2)}}) == nil {
			t.Error("a gap")
		}
	}
}
