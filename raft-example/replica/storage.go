package replica

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// storage is the log in memory, from which raft reads, and what is known of snapshots.
type storage struct {
	memlog
	replica *Replica
	conf    *pb.ConfState
	changes bool // raft is changing its configuration, and conf is that of before
	exports
	loading *loading
}

// Start is the state that a replica begins with.
type Start struct {
	Hard     *pb.HardState
	Snapshot *pb.Snapshot // the first one is made by Boot
	State    Source       // the snapshot's data, if it is not in it; to be read once
	Entries  []*pb.Entry
	Version  uint8 // the cluster's, of a Snapshot by Boot or Recover
}

// Source returns the snapshot's data.
func (s *Start) Source() Source {
	if s.State != nil {
		return s.State
	}
	return newWhole(s.Snapshot.GetData())
}

// Boot returns the start of a new cluster: the same on all of its replicas.
func Boot(members map[uint64]string) Start {
	s := startWith(kv.NewStore(), members, agreed{}, 1, 1)
	s.Snapshot.Data, _ = io.ReadAll(s.State) // it does not fail
	s.State = nil
	return s
}

// startWith returns the start of a cluster with a state and a timing, as of an index and a term.
func startWith(
	s *kv.Store, members map[uint64]string, timing agreed, index, term uint64,
) Start {
	meta := &pb.SnapshotMetadata{Index: &index, Term: &term,
		ConfState: &pb.ConfState{Voters: slices.Sorted(maps.Keys(members))}}
	return Start{Version: s.Version(), Snapshot: &pb.Snapshot{Metadata: meta},
		State: s.Save(appendHead(nil, members, timing))}
}

// load begins with s; empty, the replica waits to be made a member.
func (r *Replica) load(s Start) error {
	r.log.conf = &pb.ConfState{}
	if !raft.IsEmptySnap(s.Snapshot) {
		l, err := readAll(s.Source())
		if err != nil {
			return err
		}
		k := &loading{s: light(s.Snapshot), members: l.members, timing: l.timing}
		if k.store, err = l.Store(); err == nil {
			err = r.restore(k)
		}
		if err != nil {
			return err
		}
	}
	if s.Hard != nil {
		h := &pb.HardState{Term: new(s.Hard.GetTerm()), Vote: new(s.Hard.GetVote()),
			Commit: new(s.Hard.GetCommit())}
		// A log that was cut may have lost entries that were known to be committed elsewhere.
		last := r.applied
		if n := len(s.Entries); n > 0 {
			last = s.Entries[n-1].GetIndex()
		}
		h.Commit = new(min(max(h.GetCommit(), r.applied), last))
		r.log.SetHardState(h)
		r.term, r.durableCommit, r.committed = h.GetTerm(), h.GetCommit(), h.GetCommit()
	} else if r.applied > 0 {
		r.log.SetHardState(&pb.HardState{Term: new(s.Snapshot.GetMetadata().GetTerm()),
			Commit: new(r.applied)})
	}
	r.change.note(s.Entries)
	r.foresee(s.Entries, false)
	return r.log.Append(s.Entries)
}

// restore puts the state of a snapshot, of which all is read, in the place of what there is.
func (r *Replica) restore(k *loading) error {
	s := k.s
	if err := r.log.ApplySnapshot(s); err != nil {
		return err
	}
	r.log.drop()
	if r.durable {
		r.log.kept = s // that is on the disk
	}
	r.store, r.members, r.applied = k.store, k.members, s.GetMetadata().GetIndex()
	r.told = r.applied
	r.log.conf = s.GetMetadata().GetConfState()
	r.change.at, r.change.term = r.applied, s.GetMetadata().GetTerm()
	r.change.format = max(r.change.format, r.store.Version())
	if k.timing.at > 0 {
		r.arrive(k.timing)
	}
	return nil
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
