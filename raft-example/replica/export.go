package replica

import (
	"fmt"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// exports are the snapshots that a replica gives out. Without a disk each is the state, as of when
// it begins, and there is one at a time. With a disk it is the file there, for all.
type exports struct {
	making *making
	// With a disk: the last snapshot there, what waits for install, and whether the host's Prepare
	// is under way, maybe of one that is out of date.
	kept, prepared *pb.Snapshot
	writing        bool
	grown          uint64 // bytes of entries that are applied and not in the last snapshot
	// sent has the followers that get a snapshot, or that follow one, by its index: the log is kept
	// from there on, see behindSent.
	sent map[uint64]uint64
}

// making is a snapshot that is being given out.
type making struct {
	saver *kv.Saver
	s     *pb.Snapshot // without its data
	taken bool         // by the host
	ticks int          // for which it is not
}

// abandon is called at a tick. It ends a snapshot that raft asked for and has not sent.
func (x *exports) abandon() {
	if k := x.making; k != nil && !k.taken {
		if k.ticks++; k.ticks > 2 {
			k.saver.End()
		}
	}
}

// drop ends what is given out of a state that does not count any more.
func (x *exports) drop() {
	if x.making != nil {
		x.making.saver.End()
	}
	x.making, x.prepared, x.kept, x.grown = nil, nil, nil, 0
}

// busy reports whether a snapshot is being given out.
func (x *exports) busy() bool {
	if x.making != nil && !x.writing && x.making.saver.Over() {
		x.making = nil
	}
	return x.making != nil || x.writing || x.prepared != nil
}

// Snapshot implements raft.Storage: raft asks when a follower needs entries that are gone, and
// sends it at once. A replica refuses a snapshot of which it is no member, so one from before the
// last change of membership does not do.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	if s.changes {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	if x := s.onDisk(s.base); x != nil && x.GetMetadata().GetConfState() == s.conf {
		return x, nil
	}
	if s.make() && !s.replica.durable {
		return s.making.s, nil
	}
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// onDisk returns the snapshot on the disk if it is of this index or a later one.
func (x *exports) onDisk(index uint64) *pb.Snapshot {
	if x.kept != nil && x.kept.GetMetadata().GetIndex() >= index {
		return x.kept
	}
	return nil
}

// light is a snapshot without its state, for raft, which copies what it is given.
func light(s *pb.Snapshot) *pb.Snapshot { return &pb.Snapshot{Metadata: s.GetMetadata()} }

// make begins a snapshot of what is applied now, unless one is being given out.
func (s *storage) make() bool {
	r := s.replica
	if s.busy() {
		return false
	}
	term, err := s.Term(r.applied)
	if err != nil {
		return false // nothing is applied yet
	}
	s.making = &making{saver: r.store.Save(appendHead(nil, r.members, r.timing.now)),
		s: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: s.conf, Index: new(r.applied),
			Term: new(term)}}}
	if r.durable {
		s.writing, s.making.taken, s.grown = true, true, 0
		r.host.Prepare(s.making.s, s.making.saver)
	}
	return true
}

// Export gives out a snapshot of this index or a later one, which must be applied. Without a disk
// its data comes from a Source, to be ended when it is not read to its end; with one it is on the
// disk, and there is no Source. It is nil while there is none yet, or another one is given out.
func (r *Replica) Export(index uint64) (*pb.Snapshot, *kv.Saver) {
	if s := r.log.onDisk(index); s != nil {
		return s, nil
	}
	if r.err == nil && r.applied >= index && r.log.make() && !r.durable {
		r.log.making.taken = true
		return r.log.making.s, r.log.making.saver
	}
	return nil, nil
}

// sendSnapshot sends the snapshot that raft was given.
func (r *Replica) sendSnapshot(m *pb.Message) {
	at := m.GetSnapshot().GetMetadata().GetIndex()
	var saver *kv.Saver
	k := r.log.making
	switch {
	case r.durable && r.log.kept.GetMetadata().GetIndex() == at:
	case !r.durable && k != nil && k.s.GetMetadata().GetIndex() == at:
		saver, k.taken = k.saver, true
	default:
		r.rn.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		return
	}
	if r.log.sent == nil {
		r.log.sent = map[uint64]uint64{}
	}
	r.log.sent[m.GetTo()] = at
	r.host.SendSnapshot(m, saver)
}

// SnapshotSent tells how the transfer of a snapshot ended.
func (r *Replica) SnapshotSent(id uint64, ok bool) {
	if r.err != nil {
		return
	}
	defer r.guard()
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
		delete(r.log.sent, id)
	}
	r.changed = true
	r.settle()
	r.rn.ReportSnapshot(id, status)
}

// compact drops entries that no follower should need, and begins a snapshot for the disk
// when the log there has grown. Entries behind a snapshot that is being given out stay: the
// new log on the disk begins there, or the log of the follower that gets the snapshot.
func (r *Replica) compact() {
	first := r.log.base + 1
	// Raft still asks for the entries that commitEarly has applied.
	if keep := r.cfg.KeepEntries; r.told > keep && r.told-keep >= first+keep/2 {
		step := max(keep/2, uint64(len(r.log.entries))/4) // the rest is copied each time
		if upTo := min(r.told-keep, r.log.needed(), r.behindSent()); upTo >= first+step {
			_ = r.log.Compact(upTo)
		}
	}
	if r.durable && r.snapshotDue() {
		r.log.make()
	}
}

// entryCost is the memory of an entry besides its bytes, when a replica starts with it.
const entryCost = 128

// snapshotDue reports whether the log on the disk is long enough for another snapshot. A large
// store is not written for a small log, be it of many entries. The log of many is no larger in
// memory.
func (r *Replica) snapshotDue() bool {
	if r.applied < r.snapped() {
		return false // a snapshot of the leader is on its way to the disk
	}
	count := r.applied - r.snapped()
	return (count >= r.cfg.SnapshotEvery || r.log.grown > r.cfg.SnapshotBytes) &&
		r.log.grown+count*entryCost > r.store.Bytes()/4
}

// needed is the index from which on entries are needed behind a snapshot of this replica's own.
func (x *exports) needed() (upTo uint64) {
	upTo = ^uint64(0)
	if x.busy(); x.making != nil {
		upTo = x.making.s.GetMetadata().GetIndex()
	}
	if x.prepared != nil {
		upTo = min(upTo, x.prepared.GetMetadata().GetIndex())
	}
	return upTo
}

// mostBehind bounds, in bytes, the entries that are kept for followers that get a snapshot, if a
// quarter of the state is less.
const mostBehind = 64 << 20

// behindSent is the index from which on followers need entries that get a snapshot, or that have
// got one and follow: without them they would need another one, again and again. They
// get one when there are too many bytes of entries.
func (r *Replica) behindSent() (upTo uint64) {
	upTo = ^uint64(0)
	if len(r.log.sent) == 0 {
		return upTo
	}
	if r.log.bytes > max(mostBehind, r.store.Bytes()/4) {
		clear(r.log.sent)
		return upTo
	}
	left := len(r.log.sent)
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		at, sent := r.log.sent[id]
		switch {
		case !sent:
		case pr.Match >= at && pr.Match+r.cfg.KeepEntries/2 >= r.told:
			delete(r.log.sent, id)
		default:
			upTo = min(upTo, max(at, pr.Match))
		}
		if sent {
			left--
		}
	})
	if left > 0 || r.state != raft.StateLeader { // some are members no more
		clear(r.log.sent)
	}
	return upTo
}

// snapped is the index of the last snapshot.
func (r *Replica) snapped() uint64 {
	return max(r.log.kept.GetMetadata().GetIndex(), r.log.snap)
}

// Prepared tells that the snapshot of the last Prepare is written. The caller then calls
// Process.
func (r *Replica) Prepared(err error) {
	k := r.log.making
	r.log.making, r.log.writing = nil, false
	if r.err != nil || k == nil { // else the leader sent a newer one meanwhile
		return
	}
	defer r.guard()
	if err != nil {
		r.fail(fmt.Errorf("replica: a snapshot could not be written: %w", err))
		return
	}
	r.log.kept, r.log.prepared, r.changed = k.s, k.s, true
}

// install puts a snapshot that is written in the place of the log until there. It is called
// while no write is under way: then the log in memory is the one on the disk.
func (r *Replica) install() {
	s := r.log.prepared
	if s == nil {
		return
	}
	r.log.prepared = nil
	var entries []*pb.Entry
	at := s.GetMetadata().GetIndex()
	if last := r.lastIndex(); last > at {
		var err error // compact has kept them
		if entries, err = r.log.Entries(at+1, last+1, 1<<62); err != nil {
			r.fail(fmt.Errorf("replica: entries behind the snapshot at %d: %w", at, err))
			return
		}
	}
	hard, _, _ := r.log.InitialState()
	r.host.Compact(s, hard, entries)
}
