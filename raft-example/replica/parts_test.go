package replica

import (
	"maps"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestFifo: what goes in comes out in its order, and the room of what has gone is used again.
func TestFifo(t *testing.T) {
	var q fifo[*int]
	var want []int
	next := 0
	for round := range 40 {
		for range 100 * (round % 7) {
			v := next
			q.push(&v)
			want = append(want, v)
			next++
		}
		for range 90 * (round % 6) {
			if q.len() != len(want) {
				t.Fatalf("%d there, want %d", q.len(), len(want))
			}
			if len(want) == 0 {
				break
			}
			if got := **q.front(); got != want[0] || *q.pop() != got {
				t.Fatalf("%d comes out, want %d", got, want[0])
			}
			want = want[1:]
		}
		for _, p := range q.list[:q.head] {
			if p != nil {
				t.Fatal("what has gone is still held")
			}
		}
		if q.head >= 1024 && q.head > len(want) {
			t.Fatalf("round %d: %d places are taken for %d", round, len(q.list), len(want))
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if q.head != 0 || len(q.list) != 0 {
		t.Errorf("empty, it begins at %d of %d", q.head, len(q.list))
	}
}

// TestFifoMoves: half of a long queue has gone: the rest is moved to the front, and not before.
func TestFifoMoves(t *testing.T) {
	for _, c := range []struct{ pushed, popped, head int }{
		{2048, 1023, 1023}, {2048, 1024, 0}, {2049, 1024, 1024}, {2049, 1025, 0},
		{1024, 1023, 1023}, {1025, 1024, 0}, {3, 2, 2}, {3, 3, 0}, {4096, 2047, 2047}, {4096, 2048, 0},
	} {
		var q fifo[int]
		for i := range c.pushed {
			q.push(i)
		}
		for range c.popped {
			q.pop()
		}
		if q.head != c.head || q.len() != c.pushed-c.popped {
			t.Errorf("%+v: at %d, %d left", c, q.head, q.len())
		}
	}
}

// TestMembersBytes: members that are appended are read; cut, they are not.
func TestMembersBytes(t *testing.T) {
	want := map[uint64]string{1: "10.0.0.1:31850", 1 << 60: "", 7: string(make([]byte, maxAddr))}
	b := appendMembers(nil, want)
	got, rest, ok := parseMembers(append(b[:len(b):len(b)], "more"...))
	if !ok || !maps.Equal(got, want) || string(rest) != "more" {
		t.Errorf("%v, %q, %v", got, rest, ok)
	}
	for n := range b {
		if got, _, ok := parseMembers(b[:n]); ok {
			t.Errorf("%d of %d bytes: %v", n, len(b), got)
		}
	}
	alone := appendMembers(nil, map[uint64]string{5: ""})
	if got, rest, ok := parseMembers(alone); !ok || len(got) != 1 || len(rest) != 0 {
		t.Errorf("%v, %q, %v", got, rest, ok)
	}
}

// TestElsewhere: a follower names the leader and its address, and nobody if there is none.
func TestElsewhere(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	m.pass(tick20)
	f := m.posts[2]
	if a := f.Elsewhere(); a.Number != 1 || a.Value.String() != "a" {
		t.Errorf("%+v", a)
	}
	delete(f.members, 1)
	if a := f.Elsewhere(); a.Number != 1 || a.Value.Len() != 0 {
		t.Errorf("an address is not known: %+v", a)
	}
	if a := m.posts[1].Elsewhere(); a.Number != 0 || a.Value.Len() != 0 {
		t.Errorf("the leader sends to itself: %+v", a)
	}
	if got := m.posts[1].Status().Elected; got != 1 {
		t.Errorf("%d elections won", got)
	}
}

// TestLedFrom: the term of a leader begins with its first entry, also if its disk is behind.
func TestLedFrom(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	before, _ := l.log.Term(l.ledFrom - 1)
	if at, err := l.log.Term(l.ledFrom); err != nil || at != l.term || before == l.term {
		t.Errorf("term %d is said to begin at %d, whose term is %d after %d", l.term, l.ledFrom, at,
			before)
	}
	r, _ := newStuck(t)
	for i, term := range []uint64{1, 5} { // both wait for the disk
		step(r, &pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(uint64(5)),
			Index: new(uint64(i + 1)), LogTerm: &term,
			Entries: []*pb.Entry{{Type: pb.EntryNormal.Enum(), Index: new(uint64(i + 2)),
				Term: new(uint64(5))}}})
		if r.tail() != uint64(i+2) || r.lastIndex() != 1 {
			t.Errorf("the last is %d, on the disk %d", r.tail(), r.lastIndex())
		}
	}
	for want := uint64(2); want <= 3; want++ {
		r.Saved(nil)
		r.Process()
		if r.tail() != 3 || r.lastIndex() != want {
			t.Errorf("the last is %d, on the disk %d", r.tail(), r.lastIndex())
		}
	}
}

// TestLaterEntriesCount: entries that wait for the disk give way to those of a later leader.
func TestLaterEntriesCount(t *testing.T) {
	var w write
	add := func(term uint64, indexes ...uint64) {
		var list []*pb.Entry
		for _, i := range indexes {
			list = append(list, &pb.Entry{Index: new(i), Term: new(term)})
		}
		w.add(&raft.Ready{Entries: list}, &pb.Message{})
	}
	for _, c := range []struct {
		term    uint64
		indexes []uint64
		want    []uint64 // terms, from 3 on
	}{{1, []uint64{3, 4, 5}, []uint64{1, 1, 1}}, {1, []uint64{6}, []uint64{1, 1, 1, 1}},
		{2, []uint64{5}, []uint64{1, 1, 2}}, {3, []uint64{4, 5, 6}, []uint64{1, 3, 3, 3}},
		{4, []uint64{3}, []uint64{4}}, {5, []uint64{3, 4}, []uint64{5, 5}}} {
		add(c.term, c.indexes...)
		var got []uint64
		for i, e := range w.entries {
			if e.GetIndex() != uint64(i+3) {
				t.Errorf("entry %d where %d should be", e.GetIndex(), i+3)
			}
			got = append(got, e.GetTerm())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %v of term %d: %v, want %v", c.indexes, c.term, got, c.want)
		}
	}
}

// TestSnapshotReport: a follower gets a snapshot again when the transfer is said to have failed,
// and not before that. An ended replica takes no report.
func TestSnapshotReport(t *testing.T) {
	m := newMesh(t, Config{KeepEntries: 5}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	m.cut[3] = true
	for i := range uint64(20) {
		l.Propose(putBytes(s, i+1, "v"), 2)
		m.settle()
	}
	clear(m.cut)
	m.lossy = true
	ticks := func(n int) (snapshots int) { // all of which are lost
		clear(m.moved)
		for range n {
			m.now = m.now.Add(tick20)
			for _, p := range m.posts {
				p.Tick(m.now)
			}
			m.settle()
		}
		return m.moved[pb.MsgSnap]
	}
	if n := ticks(5); n != 1 {
		t.Fatalf("%d snapshots", n)
	}
	if n := ticks(5); n != 0 {
		t.Errorf("%d more while one is under way", n)
	}
	l.SnapshotSent(3, false)
	if n := ticks(3); n != 1 {
		t.Errorf("%d snapshots after one that failed", n)
	}
	l.fail(ErrRaft)
	l.changed = false
	l.SnapshotSent(3, false)
	l.Unreachable(3)
	l.Campaign()
	l.Transfer(2)
	if l.changed {
		t.Error("an ended replica goes on")
	}
}
