package replica

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// early applies, at a leader without a disk, entries that raft has just found committed, and
// answers. It does so before the Ready that says the same: nobody but raft needs that one, and the
// client need not wait until it is made. The Ready follows in Process, which leaves them out.
//
// The log in memory is then the beginning of raft's: a leader appends to it what each Ready brings
// and never takes an entry back. A change of membership must wait for its Ready, and so must
// entries behind it. It reports whether there is nothing else that others wait for.
func (r *Replica) early() (done bool) {
	if r.state != raft.StateLeader || r.waiting.len() == 0 || r.waiting.front().index != r.applied+1 ||
		len(r.reads) > 0 || r.asked.len() > 0 {
		return false
	}
	s := r.rn.BasicStatus()
	if s.RaftState != raft.StateLeader || s.HardState.GetTerm() != r.term {
		return false
	}
	last := min(s.HardState.GetCommit(), r.log.last())
	if last <= r.applied {
		return false
	}
	for r.applied < last {
		e := r.log.entries[r.applied-r.log.base]
		if e.GetType() != pb.EntryNormal {
			return false
		}
		r.apply(e)
	}
	return true
}
