package replica

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Quick does what the last event changed, as far as others wait for it: it sends, applies and
// answers. Work that only raft's own books need is left for Process, which must follow when the
// packets are on their way. It reports false if nobody waits for anything: then the next event may
// have a Quick, too.
func (r *Replica) Quick() (done bool) {
	if r.err != nil || !r.changed {
		return true
	}
	defer r.guard()
	if r.durable {
		r.processDurable()
		return true
	}
	if r.sayEarly() {
		return true
	}
	if r.stale() {
		return false
	}
	r.settle()
	r.advance()
	r.offer()
	r.ask()
	r.take(r.rn.Ready(), true)
	return true
}

// Process does all that can be done now: it asks for reads, sends, saves, applies and
// answers.
func (r *Replica) Process() {
	if r.err != nil || !r.changed {
		return
	}
	defer r.guard()
	for i := range r.expect {
		r.store.Touch(&r.expect[i])
	}
	r.expect = r.expect[:0]
	if r.durable {
		r.processDurable()
		return
	}
	r.settle()
	r.advance()
	r.offer()
	r.ask()
	for r.err == nil && r.rn.HasReady() {
		r.take(r.rn.Ready(), false)
		r.advance()
		r.offer()
		r.ask()
	}
	r.confirm(nil) // if there was no Ready
	r.forget()
	r.changed, r.spare.beat = false, false
	r.early.calm = true
}

// take does one Ready of a replica without a disk, all but its Advance. When it shall be
// quick, a follower applies later, too: nobody waits for that.
func (r *Replica) take(rd raft.Ready, quick bool) {
	r.lead(&rd)
	r.match(rd.Entries)
	r.foresee(rd.Entries, !raft.IsEmptySnap(rd.Snapshot))
	r.ready, r.end = rd, r.tail()
	w := write{hard: rd.HardState, entries: rd.Entries}
	if !raft.IsEmptySnap(rd.Snapshot) {
		w.snapshot = r.loaded(rd.Snapshot)
	}
	r.keep(&w)
	for _, m := range r.confirm(rd.Messages) {
		r.send(m)
	}
	r.behind = true
	if !quick || r.state == raft.StateLeader {
		r.applyAll()
	}
}

// advance tells raft that the last Ready is done, unless that is told.
func (r *Replica) advance() {
	if !r.behind {
		return
	}
	r.applyAll()
	r.behind = false
	r.rn.Advance(r.ready)
	r.ready = raft.Ready{}
	r.compact()
}

// lead follows who leads, before anything else of a Ready is done.
func (r *Replica) lead(rd *raft.Ready) {
	term, state := r.term, r.state
	if !raft.IsEmptyHardState(rd.HardState) {
		term, r.committed = rd.HardState.GetTerm(), rd.HardState.GetCommit()
	}
	leader := r.leader
	if rd.SoftState != nil {
		r.leader, state = rd.SoftState.Lead, rd.SoftState.RaftState
	}
	if r.state == raft.StateLeader && (state != raft.StateLeader || term != r.term) {
		r.lost()
	} else if r.leader != leader || r.state != state {
		r.lostReads()
	}
	if state == raft.StateLeader && (r.state != state || r.term != term) {
		r.elected++
		r.ledFrom = r.tail() + 1
		clear(r.early.acks)
		r.timing.sent = 0
	}
	r.term, r.state = term, state
}

// keep takes what a Ready says into the log in memory, from which raft reads.
func (r *Replica) keep(w *write) {
	if w.snapshot != nil {
		if err := r.restore(w.snapshot); err != nil {
			r.fail(err)
			return
		}
	}
	if !raft.IsEmptyHardState(w.hard) {
		r.log.SetHardState(w.hard)
	}
	if len(w.entries) > 0 {
		if err := r.log.Append(w.entries); err != nil {
			r.fail(err)
		}
	}
}

// applyAll applies what the last Ready says is committed, and answers.
func (r *Replica) applyAll() {
	if r.err != nil {
		return
	}
	r.ahead(r.ready.CommittedEntries)
	for _, e := range r.ready.CommittedEntries {
		if e.GetIndex() > r.applied { // else commitEarly has applied it
			if !r.apply(e) {
				return
			}
		}
		r.told = e.GetIndex()
	}
	r.ready.CommittedEntries = nil
	for i := range r.ready.ReadStates {
		r.readable(&r.ready.ReadStates[i])
	}
	r.ready.ReadStates = nil
	r.serveReads()
}

// match finds the indexes of proposals: a leader appends nothing to its log but what it was given,
// in that order, behind the empty entry that begins its term. It is called at once for each Ready:
// then the proposals that wait for an index are those of its entries.
func (r *Replica) match(entries []*pb.Entry) {
	if r.state != raft.StateLeader {
		return
	}
	r.change.note(entries)
	for _, e := range entries {
		if len(e.Data) > maxEarly {
			r.early.heavy = e.GetIndex()
		}
	}
	for _, e := range entries {
		if r.proposed.len() == 0 {
			break
		}
		if e.GetTerm() != r.term || e.GetType() == pb.EntryConfChangeV2 && len(e.Data) == 0 {
			continue // of an earlier leader, or raft's own: it leaves a joint configuration
		}
		p := r.proposed.pop()
		if len(e.Data) == 0 { // raft puts that in the place of a change that must wait for another
			r.host.Answer(p.tag, &kv.Answer{Status: kv.Busy})
			continue
		}
		r.waiting.push(waiter{e.GetIndex(), p})
		for p.more {
			p = r.proposed.pop()
			r.waiting.push(waiter{e.GetIndex(), p})
		}
	}
}

// send sends a message, or holds it back if it only tells a commit index.
func (r *Replica) send(m *pb.Message) {
	to := m.GetTo()
	if m.GetFrom() != r.cfg.ID || r.again(m) {
		return // else raft passes on a read of another replica: it will ask the new leader
	}
	if m.GetType() == pb.MsgTimeoutNow {
		r.lease.never = r.term // its receiver is elected at once, however late it comes
		r.void()
	}
	if m.GetType() == pb.MsgHeartbeat && len(m.Context) > 0 {
		if r.timing.leaves(m); r.spared(m) {
			return
		}
	}
	if m.GetType() == pb.MsgApp {
		r.thin(m)
	}
	if m.GetType() == pb.MsgApp && r.cfg.CommitDelay > 0 {
		if i := m.GetIndex(); len(m.Entries) == 0 && (i == r.tail() || i == r.end) {
			if len(r.held) == 0 {
				r.heldFrom = r.now
			}
			r.held[to] = m // a later one tells more
			return
		}
		delete(r.held, to) // this one tells as much
	}
	if m.GetType() == pb.MsgSnap {
		r.sendSnapshot(m)
		return
	}
	r.host.Send(m)
}

// maxProbe bounds the bytes of a probe's entries.
const maxProbe = 1 << 10

// thin takes the entries out of an append that only asks how far its receiver's log goes, if they
// are many bytes. Raft repeats that with each answer to a heartbeat, and sends the entries when it
// knows: a slow path would be full of copies.
func (r *Replica) thin(m *pb.Message) {
	size := 0
	for _, e := range m.Entries {
		size += len(e.Data)
	}
	if size <= maxProbe {
		return
	}
	r.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == m.GetTo() && pr.State == tracker.StateProbe {
			m.Entries = nil
		}
	})
}

// release sends what was held back, in the order of ids.
func (r *Replica) release() {
	for len(r.held) > 0 {
		first := ^uint64(0)
		for id := range r.held {
			first = min(first, id)
		}
		r.host.Send(r.held[first])
		delete(r.held, first)
	}
}

// ahead asks for what a run of entries will touch, unless all of them are applied.
func (r *Replica) ahead(run []*pb.Entry) {
	if len(run) < 2 || run[len(run)-1].GetIndex() <= r.applied {
		return
	}
	for _, e := range run[:min(len(run), mostAhead)] {
		if e.GetType() == pb.EntryNormal {
			for first, rest := kv.Split(e.Data); ; first, rest = kv.Split(rest) {
				if r.store.Ahead(first); len(rest) == 0 {
					break
				}
			}
		}
	}
}

// mostAhead bounds the entries of a run that are asked for: more may not stay in the cache.
const mostAhead = 64

// done answers what has no answer of the store.
var done = kv.Answer{Status: kv.OK}

// apply applies one committed entry and answers who waits for it. It reports false if the replica
// has ended: an entry that it cannot read must not be left out, so none behind it is applied.
func (r *Replica) apply(e *pb.Entry) (ok bool) {
	a := &done
	switch e.GetType() {
	case pb.EntryNormal:
		first, rest := kv.Split(e.Data)
		for len(rest) > 0 {
			if a = r.command(e.GetIndex(), first); a == nil {
				return false
			}
			r.answer(e.GetIndex(), a)
			first, rest = kv.Split(rest)
		}
		if len(first) > 0 { // else it is a leader's first entry
			if a = r.command(e.GetIndex(), first); a == nil {
				return false
			}
		}
	case pb.EntryConfChange:
		r.changeOne(e.Data)
		r.change.at, r.change.term = e.GetIndex(), e.GetTerm()
	case pb.EntryConfChangeV2:
		r.reconfigure(e.Data)
		r.change.at, r.change.term = e.GetIndex(), e.GetTerm()
	default:
		r.fail(fmt.Errorf("%w: entry %d of the log is of type %d, which this program does not know: "+
			"start a newer one", ErrRaft, e.GetIndex(), e.GetType()))
	}
	if r.err != nil {
		return false
	}
	// Not before: raft may ask for a snapshot while it changes its configuration.
	r.applied = e.GetIndex()
	r.log.grown += entryOverhead + uint64(len(e.Data))
	r.answer(e.GetIndex(), a)
	return true
}

// command applies one command of an entry. It returns nil if the replica has ended.
func (r *Replica) command(index uint64, data []byte) *kv.Answer {
	a := r.store.Apply(index, data)
	switch {
	case a.Status == kv.Malformed || a.Status == kv.TooLarge:
		r.fail(kv.NewEntryError(index, data))
		return nil
	case kv.Op(data[0]) == kv.Timing:
		c, _ := kv.ParseCommand(data)
		r.arrive(agreed{index, time.Duration(c.Seq), time.Duration(c.Session)})
	}
	return a
}

// answer answers the first that waits for an entry.
func (r *Replica) answer(index uint64, a *kv.Answer) {
	if r.waiting.len() > 0 && r.waiting.front().index == index {
		w := r.waiting.pop()
		if w.whole && len(r.log.conf.GetVotersOutgoing()) > 0 {
			r.joined = append(r.joined, w.tag)
			return
		}
		if w.settled && !a.Found {
			found := *a
			found.Found = true
			a = &found
		}
		r.host.Answer(w.tag, a)
	}
}

// changeOne applies a change of membership.
func (r *Replica) changeOne(data []byte) {
	cc := &pb.ConfChange{}
	if err := proto.Unmarshal(data, cc); err != nil {
		r.fail(fmt.Errorf("%w: %w", ErrMember, err))
		return
	}
	r.void()
	clear(r.early.acks)
	matched := r.matched()
	r.log.changes = true
	r.log.conf = r.rn.ApplyConfChange(cc)
	r.log.changes = false
	switch cc.GetType() {
	case pb.ConfChangeRemoveNode:
		r.part(cc.GetNodeId(), matched)
	default:
		r.members[cc.GetNodeId()] = string(cc.Context)
	}
}

// ask starts one round of heartbeats for all reads that wait; a follower asks the leader for
// one. One round is under way at a time, and the next one serves all that came meanwhile: many
// clients share it. A round that takes longer than a tick has lost messages and is not waited for.
func (r *Replica) ask() {
	if len(r.reads) == 0 || !r.follows() && !r.knows() {
		return
	}
	if r.leased() && !r.readNow() {
		return
	}
	if n := len(r.asked.list); r.asked.len() > 0 && !r.asked.list[n-1].known &&
		r.now < r.asked.list[n-1].at.Add(r.cfg.Tick) {
		return
	}
	if r.readers.wait(len(r.reads), r.now) {
		return
	}
	r.readers.left(len(r.reads))
	r.lastRead++
	r.served.Rounds++
	r.canvass()
	r.asked.push(batch{ctx: r.lastRead, at: r.now, reads: r.reads})
	r.reads = nil
	ctx := binary.LittleEndian.AppendUint64(make([]byte, 0, readCtx), r.cfg.Incarnation)
	r.rn.ReadIndex(binary.LittleEndian.AppendUint64(ctx, r.lastRead))
}

// knows reports whether this replica leads, and knows what was committed before: it has applied an
// entry of its term. Raft waits for that, too, but for a single voter, which answers at once with
// the commit index that its disk had.
func (r *Replica) knows() bool { return r.state == raft.StateLeader && r.applied >= r.ledFrom }

// readCtx is the size of a round's name: the incarnation and a number.
const readCtx = 16

// readable notes from which index on a batch may be served.
func (r *Replica) readable(s *raft.ReadState) {
	if b := s.RequestCtx; len(b) != readCtx || binary.LittleEndian.Uint64(b) != r.cfg.Incarnation {
		return
	}
	ctx := binary.LittleEndian.Uint64(s.RequestCtx[8:])
	for i := r.asked.head; i < len(r.asked.list); i++ {
		if b := &r.asked.list[i]; b.ctx == ctx {
			b.index, b.known = s.Index, true
			r.extend(b)
			if ctx == r.lastRead {
				r.spare.over()
			}
		}
	}
}

func (r *Replica) serveReads() {
	for r.asked.len() > 0 {
		b := r.asked.front()
		if !b.known || b.index > r.applied {
			return
		}
		if r.state == raft.StateLeader {
			r.served.Waited += uint64(len(b.reads))
		} else {
			r.served.Followed += uint64(len(b.reads))
		}
		for _, q := range b.reads {
			r.read(q)
		}
		r.asked.pop()
	}
}

// read answers one read with what is applied now.
func (r *Replica) read(q read) {
	v, found := r.store.Get(q.key)
	r.got = kv.Answer{Status: kv.OK, Found: found, Value: v}
	if !found {
		r.got.Status = kv.NotFound
	}
	r.host.Answer(q.tag, &r.got)
}
