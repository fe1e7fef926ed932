package replica

import (
	"bytes"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A lease lets a leader read without asking anybody: Raft dissertation, section 6.4.1. It is not
// raft's own (ReadOnlyLeaseBased), since that one outlives the followers' patience: a leader
// counts who answered in periods of an election timeout and may go on for two of them.
//
// Here it begins when the leader starts a round of heartbeats, and counts when a quorum has
// answered: each of them votes for nobody else for an election timeout from then on, except by
// order of the leader (a transfer) or after a restart. So a transfer ends the leases of its
// term, and a replica that starts again votes for nobody for an election timeout. A change of
// membership ends the lease, since it changes what a quorum is.
type lease struct {
	end    monotime.Time // 0: none
	from   uint64        // rounds up to this one begin none
	never  uint64        // in this term there is none
	fresh  bool          // Replica.now is the time, as of after the last Read
	silent int           // ticks for which this replica votes for nobody
}

// void ends the lease, and that of rounds under way.
func (r *Replica) void() { r.lease.end, r.lease.from = 0, r.lastRead }

// leased reports whether reads may be served at once. All that is committed, as far as others
// can know, must be applied: a follower may have served it.
func (r *Replica) leased() bool {
	return r.lease.fresh && r.lease.end != 0 && r.now < r.lease.end &&
		r.state == raft.StateLeader && r.lease.never != r.term && r.applied >= r.committed
}

// extend takes a round that a quorum has answered.
func (r *Replica) extend(b *batch) {
	if r.cfg.Lease > 0 && b.ctx > r.lease.from && r.state == raft.StateLeader &&
		r.counts(b.ctx) {
		r.lease.end = max(r.lease.end, b.at.Add(r.cfg.Lease))
	}
}

// readNow serves the reads that wait under the lease. It reports whether a round of heartbeats
// is to be started all the same, to extend it.
func (r *Replica) readNow() (renew bool) {
	for _, q := range r.reads {
		r.read(q)
	}
	served := len(r.reads) > 0
	r.served.Leased += uint64(len(r.reads))
	r.reads = r.reads[:0]
	r.readers.left(0)
	return served && r.lease.end.Sub(r.now) < r.cfg.Lease/2
}

// barred reports whether this replica must not hear a candidate: it may have answered a
// leader's heartbeat before it started again.
func (r *Replica) barred(m *pb.Message) bool {
	if r.lease.silent == 0 || m.GetType() != pb.MsgVote && m.GetType() != pb.MsgPreVote {
		return false
	}
	return !bytes.Equal(m.Context, transfer)
}

// transfer is the context of votes that a leader has asked for, raft's campaignTransfer.
var transfer = []byte("CampaignTransfer")

// Now tells the time without a tick, for reads under a lease.
func (r *Replica) Now(now monotime.Time) {
	if now < r.now {
		r.void() // the clock went back
	}
	r.stall(now.Sub(r.now))
	r.now, r.lease.fresh = now, true
}
