package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// drive is a host whose disk is done when settle says so, and whose log is like that of a disk: its
// last index, or a gap.
type drive struct {
	t     *testing.T
	r     *Replica
	under bool
	made  bool   // a snapshot is written
	last  uint64 // index of the last entry that is durable
	cuts  int    // compactions
}

func (d *drive) Send(*pb.Message)          {}
func (d *drive) Answer(uint64, *kv.Answer) {}
func (d *drive) Durable() bool             { return true }

func (d *drive) append(entries []*pb.Entry) {
	for _, e := range entries {
		if e.GetIndex() > d.last+1 {
			d.t.Errorf("entry %d where %d should be", e.GetIndex(), d.last+1)
		}
		d.last = e.GetIndex()
	}
}

func (d *drive) Save(_ *pb.HardState, entries []*pb.Entry, s *pb.Snapshot) {
	d.append(entries)
	d.under = true
}

func (d *drive) SendSnapshot(*pb.Message, *kv.Saver) {}
func (d *drive) Prepare(*pb.Snapshot, *kv.Saver)     { d.made = true }

func (d *drive) Compact(s *pb.Snapshot, _ *pb.HardState, entries []*pb.Entry) {
	was := d.last
	d.last = s.GetMetadata().GetIndex()
	d.append(entries)
	if d.last != was {
		d.t.Errorf("a compaction at %d leaves the log until %d, it went until %d",
			s.GetMetadata().GetIndex(), d.last, was)
	}
	d.cuts++
}

// settle lets the disk and the replica do all that is to do.
func (d *drive) settle() {
	for range 20 {
		d.r.Process()
		if d.under {
			d.under = false
			d.r.Saved(nil)
		}
		if d.made {
			d.made = false
			d.r.Prepared(nil)
		}
	}
}

// TestCompactionKeepsTheLog: raft asks for a snapshot for a follower, and while it is being
// written the time comes for one of the disk's own. The log on the disk loses nothing.
func TestCompactionKeepsTheLog(t *testing.T) {
	d := &drive{t: t, last: 1}
	r, err := New(Config{ID: 1, KeepEntries: 4, SnapshotEvery: 20}, d,
		Boot(map[uint64]string{1: "1"}), 0)
	if err != nil {
		t.Fatal(err)
	}
	d.r = r
	r.Campaign()
	d.settle()
	put := func() {
		if _, ok := r.Propose((&kv.Command{Op: kv.Open}).Append(nil), 1); !ok {
			t.Fatal("not the leader")
		}
		d.settle()
	}
	for range 10 {
		put()
	}
	if _, err := r.log.Snapshot(); err == nil { // as raft does for a slow follower
		t.Fatal("the snapshot was there at once")
	}
	for range 30 {
		put()
	}
	if d.cuts == 0 || r.Err() != nil {
		t.Errorf("%d compactions, %v", d.cuts, r.Err())
	}
}

// TestLogBytes: the log on the disk is bounded by its entries or its bytes, but a large store is
// written only when the log would take a quarter of it in memory.
func TestLogBytes(t *testing.T) {
	t.Run("bytes", func(t *testing.T) { logBytes(t, Config{ID: 1, SnapshotBytes: 4096}) })
	t.Run("entries", func(t *testing.T) { logBytes(t, Config{ID: 1, SnapshotEvery: 34}) })
}

func logBytes(t *testing.T, cfg Config) {
	const most = 4096 // that 34 entries have, about
	d := &drive{t: t, last: 1}
	r, err := New(cfg, d, Boot(map[uint64]string{1: "1"}), 0)
	if err != nil {
		t.Fatal(err)
	}
	d.r = r
	r.Campaign()
	d.settle()
	if _, ok := r.Propose((&kv.Command{Op: kv.Open}).Append(nil), 1); !ok {
		t.Fatal("not the leader")
	}
	d.settle()
	session, seq := r.applied, uint64(0)
	// put writes keys, and returns how many bytes of entries each snapshot came after.
	put := func(count, keys int, cost uint64) (after []uint64) {
		t.Helper()
		cuts, bytes := d.cuts, uint64(0)
		for range count {
			seq++
			c := kv.Command{Op: kv.Put, Session: session, Seq: seq}
			c.Key, _ = kv.MakeKey(fmt.Sprint(seq % uint64(keys)))
			c.Value, _ = kv.MakeValue(strings.Repeat("v", kv.MaxValue))
			b := c.Append(nil)
			if _, ok := r.Propose(b, seq); !ok {
				t.Fatal("not the leader")
			}
			bytes += entryOverhead + uint64(len(b)) + cost
			if d.settle(); d.cuts > cuts {
				after, cuts, bytes = append(after, bytes), d.cuts, 0
			}
		}
		return after
	}
	put(100, 4, 0)
	check := func(after []uint64, least, bound uint64) {
		t.Helper()
		if len(after) < 3 {
			t.Errorf("%d snapshots", len(after))
		}
		for _, bytes := range after[1:] {
			if bytes <= least || bytes > bound {
				t.Errorf("a snapshot after %d bytes, want %d to %d", bytes, least, bound)
			}
		}
	}
	check(put(200, 4, 0), most-most/10, most+most/10)
	put(1000, 1000, 0)
	quarter := r.store.Bytes() / 4
	check(put(1000, 1000, entryCost), quarter, quarter+most/10)
	cuts := d.cuts
	for range 100 {
		r.changed = true
		d.settle()
	}
	if d.cuts > cuts || r.Err() != nil {
		t.Errorf("%d snapshots of a store that is at rest, %v", d.cuts-cuts, r.Err())
	}
}
