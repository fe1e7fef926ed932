package replica

import (
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A round of heartbeats for reads needs the answers of a quorum, and raft sends it to all. Here it
// goes first to the voters that answered the last round first, as many as a quorum needs. The other
// heartbeats are held back: most rounds end without them, so that a read costs fewer packets and
// wakes fewer replicas. They leave when the round takes longer than a tenth of a tick. The
// heartbeats of a tick go to all. Raft takes any loss and delay of messages, so this changes no
// outcome.

// spare holds heartbeats that a round for reads may do without.
type spare struct {
	messages []*pb.Message // at most one to each peer, the newest
	from     monotime.Time // when the first one came
	beat     bool          // a tick's heartbeats are to leave
	quick    []uint64      // voters: first those that answered the last round, in that order
	round    [8]byte       // the context of that round
	count    int           // how many have answered it
}

// answered notes that a voter has answered a round.
func (s *spare) answered(id uint64, context []byte) {
	var round [8]byte
	copy(round[:], context)
	if round != s.round {
		s.round, s.count = round, 0
	}
	i := slices.Index(s.quick, id)
	if i < 0 {
		i, s.quick = len(s.quick), append(s.quick, id)
	}
	if i >= s.count {
		copy(s.quick[s.count+1:i+1], s.quick[s.count:i])
		s.quick[s.count] = id
		s.count++
	}
}

// over ends the round.
func (s *spare) over() {
	clear(s.messages)
	s.messages = s.messages[:0]
}

// hears notes answers to rounds.
func (r *Replica) hears(m *pb.Message) {
	if m.GetType() == pb.MsgHeartbeatResp && len(m.Context) > 0 &&
		slices.Contains(r.log.conf.GetVoters(), m.GetFrom()) {
		r.spare.answered(m.GetFrom(), m.Context)
		r.returns(m)
	}
}

// spared takes a heartbeat of a round if the round may do without it. The new one tells as much as
// one to the same peer that is held.
func (r *Replica) spared(m *pb.Message) bool {
	s := &r.spare
	i := slices.IndexFunc(s.messages, func(h *pb.Message) bool { return h.GetTo() == m.GetTo() })
	needless := !s.beat && r.needless(m.GetTo())
	switch {
	case needless && i >= 0:
		s.messages[i] = m
	case needless:
		if len(s.messages) == 0 {
			s.from = r.now
		}
		s.messages = append(s.messages, m)
	case i >= 0:
		s.messages = slices.Delete(s.messages, i, i+1)
	}
	return needless
}

// needless reports whether enough voters for a quorum answered the last round before this peer. A
// joint configuration needs two quorums: there all are asked.
func (r *Replica) needless(id uint64) bool {
	voters := r.log.conf.GetVoters()
	if len(r.log.conf.GetVotersOutgoing()) > 0 || !slices.Contains(voters, r.cfg.ID) {
		return false
	}
	need := len(voters) / 2 // beside this replica
	for _, q := range r.spare.quick {
		if need == 0 || q == id {
			break
		}
		if slices.Contains(voters, q) {
			need--
		}
	}
	return need == 0
}

// patience is how long a round waits for the quickest voters before all others are asked.
func (r *Replica) patience() time.Duration { return r.cfg.Tick / 10 }

// RoundEnd returns when Tick wants to be called for a round that is not over, 0 if there is none.
// It comes earlier than NextWake would without that round.
func (r *Replica) RoundEnd() monotime.Time {
	end := monotime.Never
	if len(r.spare.messages) > 0 {
		end = r.spare.from.Add(r.patience())
	}
	end = min(end, r.writers.end(), r.readers.end(), r.pipeline.end())
	if end == monotime.Never {
		return 0
	}
	return end
}

// hurry sends what was held back if the round takes too long.
func (r *Replica) hurry(now monotime.Time) {
	s := &r.spare
	if len(s.messages) == 0 || now < s.from.Add(r.patience()) && now >= s.from {
		return
	}
	for _, m := range s.messages {
		r.host.Send(m)
	}
	s.over()
}
