package replica

import (
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// A replica that is at rest sleeps for several ticks, and raft gets them together when it wakes: a
// wake-up costs more than a tick. A leader that has nothing to do sends a heartbeat each fourth
// tick. A follower that has just heard of its leader sleeps until shortly before an election may
// begin: that costs no time when the leader dies. When it hears again, what had passed does not
// count.

// beatTicks is how many ticks a leader at rest lets pass.
const beatTicks = 4

// rest is whether the replica may sleep for longer than a tick.
type rest struct {
	level bool                     // a leader's followers had all of its log at the last tick
	away  int                      // ticks for which one of them was silent and lacked something
	heard bool                     // of the leader, since the last tick
	calm  bool                     // it was heard of before that one, too
	beat  map[uint64]monotime.Time // when the last heartbeat left, by receiver
}

// ticks is how many ticks may pass before raft gets them.
func (r *Replica) ticks() int {
	switch {
	case r.saving || r.retiring || len(r.log.conf.GetVotersOutgoing()) > 0 || r.requests() > 0:
	case r.state == raft.StateLeader && r.rest.level:
		return max(1, min(beatTicks, r.cfg.ElectionTicks/2))
	case r.follows() && r.rest.calm && !r.rest.heard: // else what follows is no time without a leader
		return max(1, r.cfg.ElectionTicks-3)
	}
	return 1
}

// Rests reports whether the replica sleeps for longer than a tick.
func (r *Replica) Rests() bool { return r.ticks() > 1 }

// TickAt is when Tick has ticks for raft next.
func (r *Replica) TickAt() monotime.Time {
	return r.nextTick.Add(time.Duration(r.ticks()-1) * r.cfg.Tick)
}

// due is how many ticks raft is to get now.
func (r *Replica) due(now monotime.Time) int {
	switch {
	case now < r.nextTick:
		return 0
	case r.rest.heard:
		return 1
	case now < r.TickAt():
		return 0
	}
	return min(r.ticks(), 1+int(now.Sub(r.nextTick)/r.cfg.Tick))
}

// hearsLeader notes a message of the leader.
func (r *Replica) hearsLeader(m *pb.Message) {
	if m.GetFrom() == r.leader && m.GetTerm() == r.term && r.leader != r.cfg.ID {
		r.rest.heard = true
	}
}

// look notes at a tick what the next ones depend on. A follower that is away is no reason to wake;
// raft asks once in an election timeout who is there, and knows it a tick later.
func (r *Replica) look() {
	r.rest.calm, r.rest.heard = r.rest.heard, false
	if r.state != raft.StateLeader {
		return
	}
	last, behind, away := r.tail(), false, false
	r.rn.WithProgress(func(_ uint64, _ raft.ProgressType, p tracker.Progress) {
		behind = behind || p.Match < last && p.RecentActive
		away = away || p.Match < last && !p.RecentActive
	})
	if r.rest.away++; !away {
		r.rest.away = 0
	}
	r.rest.level = !behind && (!away || r.rest.away > 2)
}

// again reports whether a heartbeat of a tick is one more of the ticks that raft got together.
func (r *Replica) again(m *pb.Message) bool {
	if m.GetType() != pb.MsgHeartbeat || len(m.Context) > 0 {
		return false
	}
	at, sent := r.rest.beat[m.GetTo()]
	r.rest.beat[m.GetTo()] = r.now
	return sent && at == r.now
}
