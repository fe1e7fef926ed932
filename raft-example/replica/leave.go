package replica

import (
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
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
	r.settle()
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
	r.changed, r.early.handing = true, true
	r.rn.TransferLeader(next)
	return true
}

// change is where the log has changes of membership, and of the version.
type change struct {
	at, term uint64 // the last one that is applied, or a snapshot behind it
	seen     uint64 // index of the last one that the log has had
	format   uint8  // the newest of all entries and snapshots that the log has had
}

// note looks for changes among entries that come to the log.
func (c *change) note(entries []*pb.Entry) {
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			c.seen = max(c.seen, e.GetIndex())
		} else {
			c.format = max(c.format, kv.EntryFormat(e.Data))
		}
	}
}

// absolve has a replica without a vote answer candidates as if its log ended with the change that
// took it. It may have heard first that this change is committed: the others still need its vote
// then, as voter of the old half of the joint configuration, and if its log is longer than theirs
// they would never get it, while it cannot be elected itself.
//
// That is safe. A member with that change in its log knows of the joint configuration at least, and
// is not elected without a majority of the new voters. Committed entries are on such a majority,
// too, so their logs decide. A later change might have given the vote back: then all of the log
// counts, and so it does for candidates that do not have the change.
func (r *Replica) absolve(m *pb.Message) {
	if t := m.GetType(); t != pb.MsgVote && t != pb.MsgPreVote {
		return
	}
	conf, c := r.log.conf, &r.change
	if slices.Contains(conf.GetVoters(), r.cfg.ID) || len(conf.GetVotersOutgoing()) > 0 ||
		c.at == 0 || c.seen > c.at {
		return
	}
	if m.GetLogTerm() > c.term || m.GetLogTerm() == c.term && m.GetIndex() >= c.at {
		m.LogTerm, m.Index = new(m.GetTerm()), new(uint64(1)<<62)
	}
}
