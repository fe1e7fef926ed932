package replica

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// inbox holds MsgApps and MsgAppResps that came and that raft has not got yet, in their order.
type inbox struct {
	list []*pb.Message
	own  [8]box // of which the messages are
}

func (b *inbox) full() bool { return len(b.list) == len(b.own) }

// put takes a message, all but its memory.
func (b *inbox) put(m *pb.Message) {
	x := &b.own[len(b.list)]
	x.typ, x.reject, x.to, x.from = m.GetType(), m.GetReject(), m.GetTo(), m.GetFrom()
	x.term, x.logTerm, x.index, x.commit = m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit()
	x.vote, x.rejectHnt = m.GetVote(), m.GetRejectHint()
	x.fill()
	x.m.From = m.From // raft's answer refers to it
	x.m.Context, x.m.Entries = m.Context, m.Entries
	b.list = append(b.list, &x.m)
}

func (b *inbox) clear() {
	for i := range b.list {
		b.own[i].m.Context, b.own[i].m.Entries = nil, nil
	}
	clear(b.list)
	b.list = b.list[:0]
}

// Step takes a message from a peer, which it may change. The caller then calls Process. It may use
// a message of which raft keeps nothing again: see Parser.
func (r *Replica) Step(m *pb.Message) {
	if r.err != nil || m.GetTo() != r.cfg.ID {
		return
	}
	defer r.guard()
	r.changed = true
	r.hearsLeader(m)
	t := m.GetType()
	if r.early.calm && (t == pb.MsgApp || t == pb.MsgAppResp) && !r.inbox.full() {
		// Quick may know what raft will say.
		r.inbox.put(m)
		return
	}
	r.settle()
	r.step(m)
}

// step gives raft a message.
func (r *Replica) step(m *pb.Message) {
	if m.GetType() == pb.MsgHeartbeat && m.GetTerm() >= r.term {
		// The leader sends min(its commit index, the index that we confirmed): more than
		// we have means that confirmed entries are gone.
		if last := max(r.lastIndex(), r.early.index); m.GetCommit() > last {
			r.fail(fmt.Errorf("%w (it asks for %d, the last is %d)", ErrLogLost, m.GetCommit(), last))
			return
		}
	}
	if m.GetType() == pb.MsgSnap {
		return // it comes by Restore
	}
	if m.GetType() == pb.MsgReadIndex && !r.knows() {
		return // the follower asks again
	}
	if r.barred(m) || r.retiring && m.GetType() == pb.MsgTimeoutNow {
		return
	}
	r.change.note(m.Entries)
	r.absolve(m)
	r.hears(m)
	r.early.hears(m, r.term)
	if len(r.parted) > 0 && m.GetType() == pb.MsgAppResp && !m.GetReject() {
		r.dismiss(m.GetFrom(), m.GetIndex())
	}
	_ = r.rn.Step(m) // its errors are about messages that are too late
}
