package replica

import (
	"fmt"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// loading is a snapshot of the leader, whose state is read, and that raft has not given back yet.
type loading struct {
	s       *pb.Snapshot // without its data
	members map[uint64]string
	timing  agreed
	store   *kv.Store
}

// Restore takes a snapshot of the leader: the message without its data, which l has read. With a
// disk it must be prepared there as the leader's. The caller then calls Process. It reports false
// if the data is none, or while another snapshot waits for raft or the disk: see Restoring.
func (r *Replica) Restore(m *pb.Message, l *Reader) (ok bool) {
	if r.err != nil || m.GetTo() != r.cfg.ID || raft.IsEmptySnap(m.GetSnapshot()) || r.Restoring() {
		return false
	}
	store, err := l.Store()
	if err != nil {
		return false
	}
	defer r.guard()
	r.changed = true
	r.hearsLeader(m)
	r.settle()
	s := light(m.GetSnapshot())
	r.log.loading = &loading{s: s, members: l.members, timing: l.timing, store: store}
	_ = r.rn.Step(&pb.Message{Type: m.Type, To: m.To, From: m.From, Term: m.Term, Snapshot: s})
	return true
}

// Restoring reports whether raft may have taken a snapshot that is not the state yet, nor, with a
// disk, durable. Its members are those of the snapshot then, and an earlier change must not be
// applied to them.
func (r *Replica) Restoring() bool {
	return r.log.loading != nil || r.next.snapshot != nil || r.under.snapshot != nil
}

// loaded returns what was read of the snapshot that a Ready names.
func (r *Replica) loaded(s *pb.Snapshot) *loading {
	k := r.log.loading
	if k == nil || k.s.GetMetadata().GetIndex() != s.GetMetadata().GetIndex() {
		r.fail(fmt.Errorf("%w: raft takes one that was not read", kv.ErrSnapshot))
		return nil
	}
	r.log.loading = nil
	return k
}

// forget drops a snapshot that raft did not take, and reports whether there was one.
func (r *Replica) forget() bool {
	was := r.log.loading != nil
	r.log.loading = nil
	return was
}
