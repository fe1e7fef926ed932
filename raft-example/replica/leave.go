package replica

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Raft uses a configuration when it is applied. A leader that is not in the next one applies it
// first, and has a vote in the one that the others still use: if it stops leading then, or fails,
// nobody may be elected any more. Its log is longer than theirs, so it refuses its vote, and it has
// none to win itself. So only a leader that stays may end a membership: a voter goes by way of a
// joint configuration, also alone, since it may be the leader when the change is committed.

// leave has a leader leave a joint configuration. It is called once a tick.
func (r *Replica) leave() {
	conf := r.log.conf
	if r.state != raft.StateLeader || len(conf.GetVotersOutgoing()) == 0 || conf.GetAutoLeave() {
		return
	}
	if !slices.Contains(conf.GetVoters(), r.cfg.ID) {
		r.handOver()
		return
	}
	if r.applied < r.ledFrom || r.left == r.term {
		return // a change may be under way, and raft would refuse this one; or it is this one
	}
	// The empty list of addresses makes it differ from raft's own.
	data, err := proto.Marshal(&pb.ConfChangeV2{Context: appendMembers(nil, nil)})
	if err == nil && r.proposeChange(pb.EntryConfChangeV2, data, proposal{}) == nil {
		r.left = r.term
	}
}

// handOver asks the voter that has most of the log to lead. It reports false if there is none that
// was heard of lately.
func (r *Replica) handOver() bool {
	defer r.guard()
	st := r.rn.Status()
	if st.LeadTransferee != raft.None {
		return true
	}
	next, most := uint64(raft.None), uint64(0)
	for _, id := range r.log.conf.GetVoters() {
		p := st.Progress[id]
		if id != r.cfg.ID && p.RecentActive && (next == raft.None || p.Match > most) {
			next, most = id, p.Match
		}
	}
	if next == raft.None {
		return false
	}
	r.changed = true
	r.rn.TransferLeader(next)
	return true
}
