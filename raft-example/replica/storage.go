package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// storage is raft's own MemoryStorage with snapshots that are made when they are needed.
type storage struct {
	*raft.MemoryStorage
	replica *Replica
	conf    *pb.ConfState
	snap    *pb.Snapshot // the last one made, or nil
	making  *making
}

// making is a snapshot that is being written.
type making struct {
	saver *kv.Saver
	head  []byte
	meta  *pb.SnapshotMetadata
	keep  bool // for the disk
}

// Start is what a replica begins with.
type Start struct {
	Hard     *pb.HardState
	Snapshot *pb.Snapshot // the first one is made by Boot
	Entries  []*pb.Entry
}

// Boot returns the start of a new cluster: the same on all of its replicas.
func Boot(members map[uint64]string) Start {
	conf := &pb.ConfState{Voters: slices.Sorted(maps.Keys(members))}
	data := appendMembers(nil, members)
	data = append(data, kv.NewStore().Save().Step(1<<20)...)
	return Start{Snapshot: &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{ConfState: conf, Index: new(uint64(1)), Term: new(uint64(1))}}}
}

// load begins with s; empty, the replica waits to be made a member.
func (r *Replica) load(s Start) error {
	r.log.conf = &pb.ConfState{}
	if !raft.IsEmptySnap(s.Snapshot) {
		if err := r.restore(s.Snapshot); err != nil {
			return err
		}
	}
	if s.Hard != nil {
		h := &pb.HardState{Term: new(s.Hard.GetTerm()), Vote: new(s.Hard.GetVote()), Commit: new(s.Hard.GetCommit())}
		last := r.applied // a log that was cut may have lost entries that were known to be committed elsewhere
		if n := len(s.Entries); n > 0 {
			last = s.Entries[n-1].GetIndex()
		}
		h.Commit = new(min(max(h.GetCommit(), r.applied), last))
		_ = r.log.SetHardState(h)
		r.term = h.GetTerm()
	} else if r.applied > 0 {
		_ = r.log.SetHardState(&pb.HardState{Term: new(s.Snapshot.GetMetadata().GetTerm()), Commit: new(r.applied)})
	}
	return r.log.Append(s.Entries)
}

// restore puts the state of a snapshot in the place of what there is.
func (r *Replica) restore(s *pb.Snapshot) error {
	members, rest, ok := parseMembers(s.Data)
	if !ok {
		return fmt.Errorf("%w: its members", kv.ErrSnapshot)
	}
	store, err := kv.Load(rest)
	if err != nil {
		return err
	}
	if err := r.log.ApplySnapshot(s); err != nil {
		return err
	}
	r.store, r.members, r.applied = store, members, s.GetMetadata().GetIndex()
	r.log.conf, r.log.snap, r.log.making = s.GetMetadata().GetConfState(), nil, nil
	return nil
}

// Snapshot implements raft.Storage: raft asks when a follower needs entries that are gone.
// A replica refuses a snapshot of which it is no member, so one from before the last
// change of membership does not do.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	first, _ := s.FirstIndex()
	if s.snap != nil && s.snap.GetMetadata().GetIndex()+1 >= first && s.snap.GetMetadata().GetConfState() == s.conf {
		return s.snap, nil
	}
	s.make(false)
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// make begins a snapshot of what is applied now, unless one is being made.
func (s *storage) make(keep bool) {
	r := s.replica
	if s.making != nil {
		s.making.keep = s.making.keep || keep
		return
	}
	term, err := s.Term(r.applied)
	if err != nil {
		return // nothing is applied yet
	}
	s.making = &making{saver: r.store.Save(), head: appendMembers(nil, r.members), keep: keep,
		meta: &pb.SnapshotMetadata{ConfState: s.conf, Index: new(r.applied), Term: new(term)}}
}

// Background does a piece of what can wait. It reports whether there is more.
func (r *Replica) Background() (more bool) {
	const shards = 8 // of a thousand keys each: tens of microseconds
	k := r.log.making
	if k == nil || r.err != nil {
		return false
	}
	data := k.saver.Step(shards)
	if data == nil {
		return true
	}
	if k.keep && r.saving {
		return true // in order with what is saved
	}
	r.log.making = nil
	r.log.snap = &pb.Snapshot{Data: append(k.head, data...), Metadata: k.meta}
	if k.keep {
		hard, _, _ := r.log.InitialState()
		var entries []*pb.Entry
		if last, _ := r.log.LastIndex(); last > k.meta.GetIndex() {
			entries, _ = r.log.Entries(k.meta.GetIndex()+1, last+1, 1<<62) // kept by compact
		}
		r.host.Compact(r.log.snap, hard, entries)
	}
	return false
}

// compact drops entries that no follower should need, and begins a snapshot for the disk
// when the log there has grown.
func (r *Replica) compact() {
	first, _ := r.log.FirstIndex()
	if keep := r.cfg.KeepEntries; r.applied > keep && r.applied-keep >= first+keep/2 {
		upTo := r.applied - keep
		if k := r.log.making; k != nil && k.keep {
			upTo = min(upTo, k.meta.GetIndex()) // the new log on disk begins there
		}
		if upTo >= first {
			_ = r.log.Compact(upTo)
		}
	}
	if r.durable && r.applied >= r.snapped()+r.cfg.SnapshotEvery {
		r.log.make(true)
	}
}

// snapped is the index of the last snapshot.
func (r *Replica) snapped() uint64 {
	if r.log.snap != nil {
		return r.log.snap.GetMetadata().GetIndex()
	}
	s, _ := r.log.MemoryStorage.Snapshot()
	return s.GetMetadata().GetIndex()
}

// Members lead a snapshot: count u32 · id u64 · address size u8 · address ...
func appendMembers(b []byte, members map[uint64]string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(members)))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		b = binary.LittleEndian.AppendUint64(b, id)
		b = append(b, byte(len(members[id])))
		b = append(b, members[id]...)
	}
	return b
}

func parseMembers(b []byte) (members map[uint64]string, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	count, b := binary.LittleEndian.Uint32(b), b[4:]
	members = map[uint64]string{}
	for range count {
		if len(b) < 9 || len(b) < 9+int(b[8]) {
			return nil, nil, false
		}
		members[binary.LittleEndian.Uint64(b)] = string(b[9 : 9+int(b[8])])
		b = b[9+int(b[8]):]
	}
	return members, b, true
}
