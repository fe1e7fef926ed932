package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A replica with a disk runs raft with asynchronous storage writes: a Ready names what is to
// be written and, apart from that, the messages that wait for it. All others leave at once,
// heartbeats and their answers among them, and further Readies follow. Writes are durable in
// their order.

// write holds the data that one Save makes durable, and the messages that wait for it.
type write struct {
	hard     *pb.HardState
	entries  []*pb.Entry
	snapshot *loading
	sync     bool // something of it must be durable before the messages leave
	then     []*pb.Message
}

// processDurable does all that can be done without waiting for the disk.
func (r *Replica) processDurable() {
	r.offer()
	for again := true; again && r.err == nil; {
		r.ask()
		for r.err == nil && r.rn.HasReady() {
			r.takeDurable(r.rn.Ready())
			r.ask()
		}
		if again = r.save(); r.forget() {
			r.applyCommits()
			again = true
		}
	}
	r.compact()
	r.changed, r.spare.beat = false, false
}

// takeDurable does one Ready, but what is to be written waits for save.
func (r *Replica) takeDurable(rd raft.Ready) {
	r.lead(&rd)
	r.match(rd.Entries)
	r.foresee(rd.Entries, !raft.IsEmptySnap(rd.Snapshot))
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			if !raft.IsEmptySnap(rd.Snapshot) {
				r.next.snapshot, r.next.entries = r.loaded(rd.Snapshot), nil // before it nothing counts
				r.overtaken()
			}
			r.next.add(&rd, m)
		case raft.LocalApplyThread:
			r.commits = append(r.commits, m)
		default:
			r.send(m)
		}
	}
	r.ready.ReadStates = rd.ReadStates
	r.applyAll()
	r.applyCommits()
}

// overtaken drops what waits to be applied: the snapshot that raft has just taken holds it.
func (r *Replica) overtaken() {
	for _, m := range r.commits {
		for _, resp := range m.GetResponses() {
			_ = r.rn.Step(resp)
		}
	}
	r.commits = nil
}

// applyCommits applies what is committed. A change of membership waits until this disk knows
// that it is committed: a replica that restarts with the membership of before may wait for a
// member that is gone for good.
func (r *Replica) applyCommits() {
	for len(r.commits) > 0 && r.err == nil && !r.Restoring() {
		m := r.commits[0]
		if lastChange(m.Entries) > r.durableCommit {
			r.next.sync = true
			return
		}
		r.commits = r.commits[1:]
		r.ready.CommittedEntries = m.Entries
		r.applyAll()
		for _, resp := range m.GetResponses() {
			_ = r.rn.Step(resp)
		}
	}
}

// lastChange is the index of the last change of membership among entries, 0 without one.
func lastChange(entries []*pb.Entry) (index uint64) {
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			index = e.GetIndex()
		}
	}
	return index
}

// add adds what a Ready writes. Later entries take the place of earlier ones.
func (w *write) add(rd *raft.Ready, m *pb.Message) {
	if !raft.IsEmptyHardState(rd.HardState) {
		w.hard = rd.HardState
	}
	if len(rd.Entries) > 0 {
		first := rd.Entries[0].GetIndex()
		for n := len(w.entries); n > 0 && w.entries[n-1].GetIndex() >= first; n = len(w.entries) {
			w.entries = w.entries[:n-1]
		}
		w.entries = append(w.entries, rd.Entries...)
	}
	w.sync = w.sync || rd.MustSync || !raft.IsEmptySnap(rd.Snapshot)
	w.then = append(w.then, m.GetResponses()...)
}

// save begins to write what came since the last time, unless a write is under way. It reports
// whether there was nothing that must be durable, so that raft may have more to do.
func (r *Replica) save() (done bool) {
	if r.saving || r.err != nil {
		return false
	}
	r.install()
	if len(r.next.then) == 0 && !r.next.sync && r.next.hard == nil {
		return false
	}
	w := r.next
	r.next = write{}
	if !w.sync {
		r.saved(&w)
		return true
	}
	w.hard = r.hard(&w) // its commit index is durable then
	r.saving, r.under, r.saveFrom = true, w, r.now
	var snapshot *pb.Snapshot
	if w.snapshot != nil {
		snapshot = w.snapshot.s
	}
	r.host.Save(w.hard, w.entries, snapshot)
	return false
}

// hard is the hard state to save: also if only entries are new, it tells the commit index.
func (r *Replica) hard(w *write) *pb.HardState {
	if w.hard != nil {
		return w.hard
	}
	h, _, _ := r.log.InitialState()
	return h
}

// saved takes a write that is durable as far as it shall be, and lets go of what waited for it.
func (r *Replica) saved(w *write) {
	r.keep(w)
	if w.sync {
		r.durableCommit = w.hard.GetCommit()
	}
	for _, m := range w.then {
		if r.err != nil {
			return
		}
		if m.GetTo() == r.cfg.ID {
			_ = r.rn.Step(m)
		} else {
			r.send(m)
		}
	}
	r.applyCommits()
}

// Saved tells that the last Save is durable, or failed: then the replica ends, since
// what its disk holds is unknown. The caller then calls Process.
func (r *Replica) Saved(err error) {
	if !r.saving || r.err != nil {
		return
	}
	defer r.guard()
	if err != nil {
		r.fail(fmt.Errorf("replica: the log could not be written: %w", err))
		return
	}
	w := r.under
	r.saving, r.changed, r.under = false, true, write{}
	r.saved(&w)
}

// waitsForDisk reports whether a replica without a leader has a write under way. Its vote may
// be in it. That time does not count as time without a leader: else a disk that is slower than
// an election timeout ends every election before its votes are counted.
func (r *Replica) waitsForDisk() bool { return r.saving && r.leader == 0 }
