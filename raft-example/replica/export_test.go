package replica

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// inUse is how many bytes of the heap are in use.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestStateInPassing: while a state is given out and read, a piece at a time, and a tenth of its
// keys change, there is no more in memory than the state once more, as it is read, and a fifth.
func TestStateInPassing(t *testing.T) {
	const keys = 100_000
	base := inUse()
	r, _ := newStuck(t)
	c := kv.Command{Op: kv.Put, Session: 1}
	r.store.Apply(1, (&kv.Command{Op: kv.Open}).Append(nil))
	put := func(i int, v string) {
		c.Seq++
		c.Key, _ = kv.MakeKey(fmt.Sprintf("%016d", i))
		c.Value, _ = kv.MakeValue(strings.Repeat(v, kv.MaxValue))
		r.store.Apply(1, c.Append(nil))
	}
	for i := range keys {
		put(i, "v")
	}
	want := r.store.Digest()
	state := inUse() - base
	saver := r.store.Save(appendHead(nil, r.members, r.timing.now))
	l := NewReader(saver.Size())
	b := make([]byte, 64<<10)
	for i := 0; ; i++ {
		n, err := saver.Read(b)
		if _, werr := l.Write(b[:n]); werr != nil {
			t.Fatal(werr)
		}
		if err == io.EOF {
			break
		}
		for k := range keys / 1300 {
			put((i*7919+k*131)%keys, "w")
		}
		if i%20 == 0 {
			if most := inUse() - base; most > state*11/5 {
				t.Fatalf("%d KiB for a state of %d, after %d pieces", most>>10, state>>10, i)
			}
		}
	}
	if got, err := l.Store(); err != nil || got.Digest() != want {
		t.Error(err)
	}
	runtime.KeepAlive(r)
}

// TestKeptForSent: a follower that got a snapshot gets the entries behind it, however many have
// come meanwhile, and not another snapshot; but not without bounds.
func TestKeptForSent(t *testing.T) {
	for _, much := range []bool{false, true} {
		m := newMesh(t, Config{KeepEntries: 5}, 1, 2, 3)
		l := m.posts[1]
		s := m.session(l)
		seq := uint64(0)
		put := func(n int) {
			for range n {
				seq++
				l.Propose(putBytes(s, seq, "v"), 2)
				m.settle()
			}
		}
		m.cut[3] = true
		put(40)
		clear(m.cut)
		m.lossy = true
		m.pass(3 * tick20) // the snapshot is on its way
		if len(m.snaps) != 1 || l.log.sent[3] == 0 {
			t.Fatalf("%d snapshots", len(m.snaps))
		}
		if much {
			l.log.bytes += mostBehind
		}
		put(100)
		snap := m.snaps[0]
		if kept := l.log.base <= snap.GetMetadata().GetIndex(); kept == much {
			t.Errorf("much %v: the log behind %d, the snapshot of %d", much, l.log.base,
				snap.GetMetadata().GetIndex())
		}
		m.lossy = false
		m.posts[3].Step(&pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(3)), From: new(uint64(1)),
			Term: new(l.term), Snapshot: snap})
		l.SnapshotSent(3, true)
		m.pass(20 * tick20)
		put(20)
		m.pass(5 * tick20)
		if again := len(m.snaps) - 1; (again > 0) != much || m.posts[3].applied != l.applied {
			t.Errorf("much %v: %d more snapshots, applied %d of %d", much, again, m.posts[3].applied,
				l.applied)
		}
		if !much && (len(l.log.sent) > 0 || l.log.last()-l.log.base > 30) {
			t.Errorf("the log has %d entries, for %v", l.log.last()-l.log.base, l.log.sent)
		}
		if got := sizeOf(l.log.entries); !much && got != l.log.bytes {
			t.Errorf("%d bytes of entries, want %d", l.log.bytes, got)
		}
	}
}

// TestExport: without a disk a state is given out to one at a time, and to raft only if it sends
// it.
func TestExport(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s, from := l.Export(l.applied)
	if s.GetMetadata().GetIndex() != l.applied || from == nil {
		t.Fatal(s)
	}
	if again, _ := l.Export(0); again != nil {
		t.Error("two at a time")
	}
	if _, err := l.log.Snapshot(); err == nil {
		t.Error("one for raft meanwhile")
	}
	m.pass(10 * tick20)
	if from.Over() {
		t.Error("it was ended while somebody reads it")
	}
	from.End()
	if _, err := l.log.Snapshot(); err != nil { // raft asks, and does not send it
		t.Error(err)
	}
	saver := l.log.making.saver
	m.pass(40 * tick20)
	if !saver.Over() {
		t.Error("a state that nobody sends is noted for ever")
	}
	if later, _ := l.Export(l.applied + 1); later != nil {
		t.Error("a state that is not there yet")
	}
	if s, from = l.Export(1); s == nil {
		t.Fatal("no state")
	}
	give(l.Replica, &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)),
		Term: new(l.term + 1), Snapshot: snapOf(t, l, l.applied+100)})
	l.Process()
	if _, err := io.ReadAll(from); !errors.Is(err, kv.ErrEnded) || l.Err() != nil {
		t.Errorf("the state of before goes on: %v, %v", err, l.Err())
	}
}

// snapOf is a snapshot that a later leader might send.
func snapOf(t *testing.T, p *post, index uint64) *pb.Snapshot {
	t.Helper()
	s := Boot(p.members).Snapshot
	s.Metadata.Index, s.Metadata.Term = &index, new(p.term+1)
	return s
}
