package replica

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrEmpty is a log without a cluster's state.
var ErrEmpty = errors.New("replica: the log has no state of a cluster")

// Recover makes the start of a new cluster with other members, of what one replica of a cluster had
// on its disk. All entries of its log count: those that it does not know to be committed may have
// been acknowledged by others. Changes of membership do not count. Sessions are kept, and the tick
// and the lease that the log has said. Errors: ErrEmpty, kv.ErrSnapshot, *kv.EntryError, ErrRaft
// for an entry of a type that is not known.
func Recover(from Start, members map[uint64]string) (Start, error) {
	if raft.IsEmptySnap(from.Snapshot) {
		return Start{}, ErrEmpty
	}
	l, err := readAll(from.Source())
	if err != nil {
		return Start{}, err
	}
	store, err := l.Store()
	if err != nil {
		return Start{}, err
	}
	meta := from.Snapshot.GetMetadata()
	index, term := meta.GetIndex(), max(meta.GetTerm(), from.Hard.GetTerm())
	for _, e := range from.Entries {
		if err := replay(store, e); err != nil {
			return Start{}, err
		}
		if a, ok := timingOf(e); ok {
			l.timing = a
		}
		index = e.GetIndex()
	}
	return startWith(store, members, l.timing, index, term), nil
}

// replay applies what an entry writes.
func replay(s *kv.Store, e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryNormal:
	case pb.EntryConfChange, pb.EntryConfChangeV2:
		return nil
	default:
		return fmt.Errorf("%w: entry %d is of type %d", ErrRaft, e.GetIndex(), e.GetType())
	}
	for first, rest := kv.Split(e.Data); len(first) > 0; first, rest = kv.Split(rest) {
		a := s.Apply(e.GetIndex(), first)
		if a.Status == kv.Malformed || a.Status == kv.TooLarge {
			return kv.NewEntryError(e.GetIndex(), first)
		}
	}
	return nil
}
