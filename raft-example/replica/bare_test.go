package replica

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// bare is one RawNode with nothing around it: no state machine, no bytes, no requests.
type bare struct {
	rn    *raft.RawNode
	log   *raft.MemoryStorage
	rd    raft.Ready
	open  bool // rd is done and raft not told
	inbox []*pb.Message
	done  int // entries committed
}

// ready takes a Ready and sends, which is all that others wait for.
func (n *bare) ready(all []*bare) {
	n.advance()
	n.rd, n.open = n.rn.Ready(), true
	if !raft.IsEmptyHardState(n.rd.HardState) {
		_ = n.log.SetHardState(n.rd.HardState)
	}
	_ = n.log.Append(n.rd.Entries)
	for _, m := range n.rd.Messages {
		to := all[m.GetTo()-1]
		to.inbox = append(to.inbox, m)
	}
	for _, e := range n.rd.CommittedEntries {
		if len(e.Data) > 0 {
			n.done++
		}
	}
}

func (n *bare) advance() {
	if n.open {
		n.open = false
		n.rn.Advance(n.rd)
	}
}

// rest does what nobody waits for.
func (n *bare) rest(all []*bare) {
	for n.advance(); n.rn.HasReady(); n.advance() {
		n.ready(all)
	}
}

// from steps what came from one peer.
func (n *bare) from(id uint64) {
	keep := n.inbox[:0]
	for _, m := range n.inbox {
		if m.GetFrom() == id {
			_ = n.rn.Step(m)
		} else {
			keep = append(keep, m)
		}
	}
	n.inbox = keep
}

func newBare(tb testing.TB, ids []uint64) (all []*bare) {
	tb.Helper()
	for _, id := range ids {
		n := &bare{log: raft.NewMemoryStorage()}
		snap := &pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: ids},
			Index: new(uint64(1)), Term: new(uint64(1))}}
		err := n.log.ApplySnapshot(snap)
		if err == nil {
			n.rn, err = raft.NewRawNode(&raft.Config{ID: id, ElectionTick: 10, HeartbeatTick: 1,
				Storage: n.log, Applied: 1, MaxSizePerMsg: 256 << 10, MaxInflightMsgs: 256,
				CheckQuorum: true, PreVote: true, Logger: quiet{}})
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, n)
	}
	_ = all[0].rn.Campaign()
	for range 10 {
		for _, n := range all {
			for from := range all {
				n.from(uint64(from + 1))
			}
			n.rest(all)
			n.done = 0
		}
	}
	return all
}

// BenchmarkBare is the least that a replicated entry costs with this Raft: three RawNodes in memory
// that hand each other messages as they are. Its steps are those of BenchmarkPut, which has the
// store, the bytes of messages and the answers besides.
func BenchmarkBare(b *testing.B) {
	all := newBare(b, []uint64{1, 2, 3})
	l, f, g := all[0], all[1], all[2]
	data := make([]byte, 112)
	entry := &pb.Entry{} // raft copies it
	prop := &pb.Message{Type: pb.MsgProp.Enum(), From: new(uint64(1)), Entries: []*pb.Entry{entry}}
	var propose, app, ack time.Duration
	took := func(to *time.Duration, do func()) {
		begin := monotime.Now()
		do()
		*to += monotime.Now().Sub(begin)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		took(&propose, func() {
			entry.Data = data
			_ = l.rn.Step(prop)
			l.ready(all)
		})
		took(&app, func() { f.from(1); f.ready(all) })
		l.rest(all)
		f.rest(all)
		took(&ack, func() { l.from(2); l.ready(all) })
		l.rest(all)
		g.from(1)
		g.rest(all)
		l.from(3)
		l.rest(all)
		f.inbox, g.inbox = f.inbox[:0], g.inbox[:0] // the next entry tells the commit index, too
		if last, _ := l.log.LastIndex(); i%1000 == 999 {
			for _, n := range all {
				_ = n.log.Compact(last - 100)
			}
		}
	}
	for unit, d := range map[string]time.Duration{"propose-ns/op": propose, "append-ns/op": app,
		"ack-ns/op": ack, "path-ns/op": propose + app + ack} {
		b.ReportMetric(float64(d)/float64(b.N), unit)
	}
	if l.done != b.N {
		b.Errorf("%d of %d committed", l.done, b.N)
	}
}
