package replica

import (
	"errors"
	"fmt"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// ErrEarly means that raft does not say what this replica has said before it.
var ErrEarly = errors.New("replica: raft does not say what was said early")

// early holds the message that a replica without a disk has sent before raft, and the state of raft
// that it needs for the next one: see "Early messages" in the package documentation.
type early struct {
	kind  earlyKind
	msg   box      // that was sent; if to several, the last one
	to    []uint64 // who got it, and raft has not sent it to yet
	given *offers  // the proposals in it, until raft gets them
	index uint64   // up to which entries are answered, or applied

	calm    bool              // raft has got all that came, and has said all that it has to say
	acks    map[uint64]uint64 // the last entry that a follower has, in this term and configuration
	heavy   uint64            // the last entry of more than maxEarly bytes
	handing bool              // raft may be handing over
	look    func(uint64, raft.ProgressType, tracker.Progress)
}

// earlyKind names the kinds of early messages.
type earlyKind uint8

const (
	earlyNone   earlyKind = iota
	earlyAppend           // a leader has sent MsgApps
	earlyAnswer           // a follower has sent a MsgAppResp
	earlyCommit           // a leader has applied and answered
)

// Raft takes proposals up to maxUncommitted bytes that are not applied, and sends up to maxMessage
// bytes in a message, and maxInflight messages of about maxInflightBytes without answers. Early
// messages stay far below: where these are under way, too, raft says so at rest.
const (
	maxUncommitted   = 64 << 20
	maxMessage       = 128 << 10
	maxInflight      = 256
	maxInflightBytes = 1 << 20
	maxEarly         = 64 << 10 // bytes of all entries of a message
)

// sayEarly says what raft will say of what came, if that is certain, and reports whether it did.
func (r *Replica) sayEarly() bool {
	if !r.early.calm || r.early.kind != earlyNone || len(r.reads) > 0 {
		return false
	}
	switch came := r.inbox.list; {
	case r.state == raft.StateLeader && r.offering():
		return r.appendEarly()
	case len(came) == 0:
		return false
	case r.state == raft.StateLeader:
		return r.commitEarly(came)
	case r.state == raft.StateFollower && len(came) == 1:
		return r.answerEarly(came[0])
	}
	return false
}

// stale reports whether nothing came but answers for entries that have been applied, and proposals
// that gather.
func (r *Replica) stale() bool {
	if !r.early.calm || len(r.reads) > 0 || r.offering() {
		return false
	}
	for _, m := range r.inbox.list {
		if !r.acknowledges(m) || m.GetIndex() > r.told {
			return false
		}
	}
	return true
}

// acknowledges reports whether a message says, in this term, which entries a follower has.
func (r *Replica) acknowledges(m *pb.Message) bool {
	return m.GetType() == pb.MsgAppResp && !m.GetReject() && m.GetTerm() == r.term
}

// appendEarly sends the proposals that wait to the steady followers. Raft gets them before all else
// that came: the order in which it hears of what came in one pass is free.
func (r *Replica) appendEarly() bool {
	e, o := &r.early, r.offers
	last := r.log.last()
	term, err := r.log.Term(last)
	if err != nil || len(o.data)+len(o.runs)*entHeader > maxEarly || len(r.steady()) == 0 {
		return false
	}
	r.gone(len(o.tags))
	e.kind, e.given, r.offers = earlyAppend, r.offers, e.given
	m := e.msg.begin(pb.MsgApp, r.cfg.ID, r.term)
	e.msg.logTerm, e.msg.index, e.msg.commit = term, last, r.committed
	m.Entries = e.given.entriesOf(&e.msg.term)
	for _, to := range e.to {
		e.msg.to = to
		r.send(m)
	}
	return true
}

// answerEarly answers a MsgApp that continues the log.
func (r *Replica) answerEarly(m *pb.Message) bool {
	last := r.log.last()
	if m.GetType() != pb.MsgApp || m.GetFrom() != r.leader || m.GetTerm() != r.term ||
		len(m.Entries) == 0 || m.GetIndex() != last || r.log.loading != nil {
		return false
	}
	if term, err := r.log.Term(last); err != nil || term != m.GetLogTerm() {
		return false
	}
	for _, n := range m.Entries {
		if last++; n.GetIndex() != last || kv.EntryFormat(n.Data) > 1 { // see foresee
			return false
		}
	}
	e := &r.early
	e.kind, e.index = earlyAnswer, last
	answer := e.msg.begin(pb.MsgAppResp, r.cfg.ID, r.term)
	e.msg.to, e.msg.index = r.leader, last
	e.to = append(e.to[:0], r.leader)
	r.send(answer)
	return true
}

// commitEarly applies the entries that the last one of followers' answers commits, and answers. A
// change of membership must wait for its Ready, and so must entries behind it.
func (r *Replica) commitEarly(came []*pb.Message) bool {
	for _, m := range came {
		if !r.acknowledges(m) { // another message may end the leadership first
			return false
		}
	}
	m := came[len(came)-1]
	last := m.GetIndex()
	if r.asked.len() > 0 || last <= r.applied || !r.majority(m.GetFrom(), last) {
		return false
	}
	if term, err := r.log.Term(last); err != nil || term != r.term {
		return false
	}
	list := r.log.entries[r.applied-r.log.base : last-r.log.base]
	for _, n := range list {
		if n.GetType() != pb.EntryNormal {
			return false
		}
	}
	r.early.kind, r.early.index = earlyCommit, last
	r.ahead(list)
	for _, n := range list {
		if !r.apply(n) {
			break
		}
	}
	return true
}

// majority reports whether an entry is on a majority of the voters once this one has it.
func (r *Replica) majority(from, index uint64) bool {
	if len(r.log.conf.GetVotersOutgoing()) > 0 {
		return false
	}
	voters, have := r.log.conf.GetVoters(), 0
	for _, id := range voters {
		if id == r.cfg.ID || id == from || r.early.acks[id] >= index {
			have++
		}
	}
	return have > len(voters)/2
}

// hears notes which entries a follower has, and whether leadership may go.
func (e *early) hears(m *pb.Message, term uint64) {
	switch t := m.GetType(); {
	case t == pb.MsgTransferLeader:
		e.handing = true
	case t == pb.MsgAppResp && !m.GetReject() && m.GetTerm() == term:
		e.acks[m.GetFrom()] = max(e.acks[m.GetFrom()], m.GetIndex())
	}
}

// steady returns the followers who have been sent all the log, and may get more. Raft is at rest.
// There is none unless raft will take any proposals up to maxEarly: what is not applied is less
// than maxInflight times as much.
func (r *Replica) steady() []uint64 {
	e := &r.early
	e.to = e.to[:0]
	if len(r.log.conf.GetVotersOutgoing()) > 0 || r.change.seen > r.applied || e.heavy > r.told ||
		r.log.last() >= r.told+maxInflight {
		return nil
	}
	if e.handing {
		if e.handing = r.rn.BasicStatus().LeadTransferee != raft.None; e.handing {
			return nil
		}
	}
	r.rn.WithProgress(e.look)
	return e.to
}

// visit looks whether a follower is steady. Its messages without answers are no more than the
// entries that it has not acknowledged.
func (r *Replica) visit(id uint64, _ raft.ProgressType, p tracker.Progress) {
	if id != r.cfg.ID && p.State == tracker.StateReplicate && p.Next == r.log.last()+1 &&
		!p.MsgAppFlowPaused && p.Next-p.Match <= maxInflight {
		r.early.to = append(r.early.to, id)
	}
}

// settle gives raft all that it was not given yet. Nothing else may be asked of raft before.
func (r *Replica) settle() {
	e := &r.early
	e.calm = false
	if o := e.given; len(o.tags) > 0 {
		if err := r.rn.Step(o.message(&r.cfg.ID)); err != nil {
			r.fail(fmt.Errorf("%w: proposals from %d on: %w", ErrEarly, e.msg.index+1, err))
			return
		}
		r.gave(o)
		e.msg.m.Entries = o.entriesOf(&e.msg.term) // raft has its own
		o.tags = o.tags[:0]
	}
	for i := 0; i < len(r.inbox.list) && r.err == nil; i++ {
		r.step(r.inbox.list[i])
	}
	r.inbox.clear()
}

// confirm takes the messages of the Ready after an early message, and returns those that were not
// sent. If raft does not say what was said the replica ends.
func (r *Replica) confirm(list []*pb.Message) (rest []*pb.Message) {
	e := &r.early
	if e.kind == earlyNone {
		return list
	}
	rest = list[:0]
	for _, m := range list {
		if i := slices.Index(e.to, m.GetTo()); i >= 0 {
			e.msg.to = m.GetTo()
			if same(m, &e.msg.m) {
				e.to = slices.Delete(e.to, i, i+1)
				continue
			}
		}
		rest = append(rest, m)
	}
	switch {
	case len(e.to) > 0:
		r.fail(fmt.Errorf("%w: no %v of term %d at %d to %d", ErrEarly, e.msg.typ, e.msg.term,
			e.msg.index, e.to))
	case e.kind == earlyCommit && r.committed < e.index:
		r.fail(fmt.Errorf("%w: %d is committed, and %d applied", ErrEarly, r.committed, e.index))
	}
	e.kind, e.index = earlyNone, 0
	e.given.reset()
	return rest
}
