package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// storage is the log in memory with snapshots that are made when they are needed.
type storage struct {
	memlog
	replica *Replica
	conf    *pb.ConfState
	snap    *pb.Snapshot // the last one made, or nil
	making  *making
	// With a disk: the snapshot that is being written there, and then that is written and
	// waits for install.
	preparing, prepared *pb.Snapshot
	writing             bool // the host's Prepare is under way, maybe of one that is out of date

	loading *loading
}

// loading is a snapshot of the leader that is being read; raft has not seen it yet.
type loading struct {
	m       *pb.Message
	members map[uint64]string
	timing  agreed
	loader  *kv.Loader
	store   *kv.Store // once all is read
}

// making is a snapshot that is being written.
type making struct {
	saver *kv.Saver
	meta  *pb.SnapshotMetadata
	keep  bool // for the disk
}

// Start is the state that a replica begins with.
type Start struct {
	Hard     *pb.HardState
	Snapshot *pb.Snapshot // the first one is made by Boot
	Entries  []*pb.Entry
	Version  uint8 // the cluster's, of a Snapshot by Boot or Recover
}

// Boot returns the start of a new cluster: the same on all of its replicas.
func Boot(members map[uint64]string) Start {
	return bootWith(kv.NewStore(), members, 1, 1)
}

// bootWith returns the start of a cluster with a state, as of an index and a term.
func bootWith(s *kv.Store, members map[uint64]string, index, term uint64) Start {
	data := s.Save(appendMembers(nil, members)).Step(math.MaxInt)
	meta := &pb.SnapshotMetadata{Index: &index, Term: &term,
		ConfState: &pb.ConfState{Voters: slices.Sorted(maps.Keys(members))}}
	return Start{Version: s.Version(), Snapshot: &pb.Snapshot{Data: data, Metadata: meta}}
}

// load begins with s; empty, the replica waits to be made a member.
func (r *Replica) load(s Start) error {
	r.log.conf = &pb.ConfState{}
	if !raft.IsEmptySnap(s.Snapshot) {
		k, err := load(&pb.Message{Snapshot: s.Snapshot})
		if err == nil {
			k.store, err = k.loader.Step(1 << 30)
		}
		if err == nil {
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
	s := k.m.GetSnapshot()
	if err := r.log.ApplySnapshot(light(s)); err != nil {
		return err
	}
	r.store, r.members, r.applied = k.store, k.members, s.GetMetadata().GetIndex()
	r.told = r.applied
	r.log.conf, r.log.snap, r.log.making = s.GetMetadata().GetConfState(), nil, nil
	r.log.preparing, r.log.prepared = nil, nil
	r.change.at, r.change.term = r.applied, s.GetMetadata().GetTerm()
	r.change.format = max(r.change.format, r.store.Version())
	if k.timing.at > 0 {
		r.arrive(k.timing)
	}
	return nil
}

// load begins to read a snapshot. The error is kv.ErrSnapshot.
func load(m *pb.Message) (*loading, error) {
	members, timing, rest, ok := parseHead(m.GetSnapshot().GetData())
	if !ok {
		return nil, fmt.Errorf("%w: its members", kv.ErrSnapshot)
	}
	loader, err := kv.NewLoader(rest)
	return &loading{m: m, members: members, timing: timing, loader: loader}, err
}

// stepSnapshot reads a snapshot of the leader piece by piece, in Background, and only then
// gives it to raft: so the loop goes on answering meanwhile. One that comes while another is
// read is lost, as any message may be.
func (r *Replica) stepSnapshot(m *pb.Message) error {
	if r.log.loading != nil { // being read, or read and not taken by raft yet
		return nil
	}
	k, err := load(m)
	if err != nil {
		return err
	}
	r.log.loading = k
	return nil
}

// read goes on reading the leader's snapshot. It reports whether there is more.
func (k *loading) read(r *Replica) (more bool) {
	store, err := k.loader.Step(atOnce)
	if err != nil {
		r.log.loading = nil // the leader sends it again
		return false
	}
	if store == nil {
		return true
	}
	k.store = store
	r.changed = true
	r.settle()
	m := k.m
	_ = r.rn.Step(&pb.Message{Type: m.Type, To: m.To, From: m.From, Term: m.Term,
		Snapshot: light(m.GetSnapshot())})
	return false
}

// loaded returns what was read of the snapshot that a Ready names.
func (r *Replica) loaded(s *pb.Snapshot) *loading {
	k := r.log.loading
	if k == nil || k.store == nil ||
		k.m.GetSnapshot().GetMetadata().GetIndex() != s.GetMetadata().GetIndex() {
		r.fail(fmt.Errorf("%w: raft takes one that was not read", kv.ErrSnapshot))
		return nil
	}
	r.log.loading = nil
	return k
}

// forget drops a snapshot that raft did not take, and reports whether there was one.
func (r *Replica) forget() bool {
	k := r.log.loading
	if k == nil || k.store == nil {
		return false
	}
	r.log.loading = nil
	return true
}

// Snapshot implements raft.Storage: raft asks when a follower needs entries that are gone.
// A replica refuses a snapshot of which it is no member, so one from before the last
// change of membership does not do.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	first, _ := s.FirstIndex()
	if s.snap != nil && s.snap.GetMetadata().GetIndex()+1 >= first &&
		s.snap.GetMetadata().GetConfState() == s.conf {
		return light(s.snap), nil
	}
	s.make(false)
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// light is a snapshot without its state, for raft, which copies what it is given.
func light(s *pb.Snapshot) *pb.Snapshot { return &pb.Snapshot{Metadata: s.GetMetadata()} }

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
	s.making = &making{saver: r.store.Save(appendHead(nil, r.members, r.timing.now)),
		keep: keep, meta: &pb.SnapshotMetadata{ConfState: s.conf, Index: new(r.applied), Term: new(term)}}
}

// SnapshotFrom returns a snapshot of the state as of this index or a later one. It is nil while
// Background makes it.
func (r *Replica) SnapshotFrom(index uint64) *pb.Snapshot {
	if s := r.log.snap; s != nil && s.GetMetadata().GetIndex() >= index {
		return s
	}
	r.log.make(false)
	return nil
}

// atOnce is how many keys are copied in one pass: some hundred microseconds.
const atOnce = 4096

// Background does a piece of what can wait. It reports whether there is more.
func (r *Replica) Background() (more bool) {
	if k := r.log.loading; k != nil && k.store == nil && r.err == nil {
		defer r.guard()
		if more = k.read(r); more {
			return true
		}
	}
	k := r.log.making
	if k == nil || r.err != nil {
		return false
	}
	data := k.saver.Step(atOnce)
	if data == nil {
		return true
	}
	r.log.making = nil
	r.log.snap = &pb.Snapshot{Data: data, Metadata: k.meta}
	if k.keep {
		r.log.preparing, r.log.writing = r.log.snap, true
		r.host.Prepare(r.log.snap)
	}
	return false
}

// compact drops entries that no follower should need, and begins a snapshot for the disk
// when the log there has grown. Entries behind a snapshot that is being written stay: the
// new log on the disk begins there, or the log of the follower that gets the snapshot.
func (r *Replica) compact() {
	first, _ := r.log.FirstIndex()
	// Raft still asks for the entries that commitEarly has applied.
	if keep := r.cfg.KeepEntries; r.told > keep && r.told-keep >= first+keep/2 {
		upTo := r.told - keep
		if k := r.log.making; k != nil {
			upTo = min(upTo, k.meta.GetIndex()) // keep may still be set
		}
		for _, s := range []*pb.Snapshot{r.log.preparing, r.log.prepared} {
			if s != nil {
				upTo = min(upTo, s.GetMetadata().GetIndex())
			}
		}
		if upTo >= first {
			_ = r.log.Compact(upTo)
		}
	}
	if r.durable && r.applied >= r.snapped()+r.cfg.SnapshotEvery && !r.log.writing &&
		r.log.prepared == nil {
		r.log.make(true)
	}
}

// snapped is the index of the last snapshot.
func (r *Replica) snapped() uint64 {
	if r.log.snap != nil {
		return r.log.snap.GetMetadata().GetIndex()
	}
	return r.log.memlog.snap
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
