package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Status is a replica's view of itself and its cluster.
type Status struct {
	ID       uint64            `json:"id"`
	Leader   uint64            `json:"leader"` // 0: none known
	State    string            `json:"state"`
	Term     uint64            `json:"term"`
	First    uint64            `json:"first"` // index of the first entry that is kept
	Last     uint64            `json:"last"`
	LastTerm uint64            `json:"last_term"` // of the last entry
	Applied  uint64            `json:"applied"`
	Version  uint8             `json:"version"` // the cluster's, see kv.Format
	Timing   Timing            `json:"timing"`
	Keys     int               `json:"keys"`
	Sessions int               `json:"sessions"`
	Elected  uint64            `json:"elected"` // elections that it won
	Reads    Reads             `json:"reads"`
	Durable  bool              `json:"durable"`
	Members  map[uint64]string `json:"members"`
	Voters   []uint64          `json:"voters,omitempty"`
	Learners []uint64          `json:"learners,omitempty"`
	Outgoing []uint64          `json:"outgoing,omitempty"` // voters of before, while joint
	Err      string            `json:"error,omitempty"`
	// Removed: it was a member and is none any more, so it may stop. A Node says it.
	Removed bool `json:"removed,omitempty"`
}

// Reads counts the reads that a replica has served.
type Reads struct {
	Leased   uint64 `json:"leased"`   // under a lease
	Rounds   uint64 `json:"rounds"`   // of heartbeats that others have waited for
	Waited   uint64 `json:"waited"`   // for a round, at the leader
	Followed uint64 `json:"followed"` // as a follower
}

// Status returns it.
func (r *Replica) Status() Status {
	first, _ := r.log.FirstIndex()
	lastTerm, _ := r.log.Term(r.lastIndex())
	s := Status{ID: r.cfg.ID, Leader: r.leader, State: r.state.String(), Term: r.term, First: first,
		Last: r.lastIndex(), LastTerm: lastTerm, Applied: r.applied, Version: r.store.Version(),
		Timing: r.Timing(), Keys: r.store.Len(),
		Sessions: r.store.Sessions(), Elected: r.elected, Durable: r.durable,
		Members: maps.Clone(r.members), Learners: r.log.conf.GetLearners(), Reads: r.served,
		Voters: r.log.conf.GetVoters(), Outgoing: r.log.conf.GetVotersOutgoing()}
	if r.err != nil {
		s.Err = r.err.Error()
	}
	return s
}

// Leads reports whether this replica is the leader, as far as it knows.
func (r *Replica) Leads() bool { return r.err == nil && r.state == raft.StateLeader }

// Applied is the index of the last entry that is applied.
func (r *Replica) Applied() uint64 { return r.applied }

// Member returns the address of a member.
func (r *Replica) Member(id uint64) (addr string, ok bool) {
	addr, ok = r.members[id]
	return addr, ok
}

// MemberIDs returns the ids of all members, in order.
func (r *Replica) MemberIDs() []uint64 { return slices.Sorted(maps.Keys(r.members)) }

// Memberless reports whether this replica knows no member: it waits to be added.
func (r *Replica) Memberless() bool { return len(r.members) == 0 }

// Changed returns the index of the last entry or snapshot that changed the members. It grows with
// each change that is applied.
func (r *Replica) Changed() uint64 { return r.change.at }

// IsAddress reports whether a member has this address.
func (r *Replica) IsAddress(addr string) bool {
	for _, a := range r.members {
		if a == addr {
			return true
		}
	}
	return false
}

// Format is the newest format of what the log has had, also of what is not committed: from the
// first entry of a format on, only who knows it may be sent entries or a folder's content. It never
// falls.
func (r *Replica) Format() uint8 { return r.change.format }

// Raise proposes to make a format the cluster's version; like Propose. The answer says Found if it
// is the version, or less, already. The caller knows that all members know the format. Errors:
// ErrFormat, ErrLeader.
func (r *Replica) Raise(to uint8, tag uint64) error {
	if !r.Leads() {
		return ErrLeader
	}
	if to == 0 || to > kv.Format {
		return fmt.Errorf("%w: %d, want 1 to %d", ErrFormat, to, kv.Format)
	}
	c := kv.Command{Op: kv.Raise, Format: to, Cluster: r.cfg.Cluster}
	return r.proposeChange(pb.EntryNormal, c.Append(nil), proposal{tag: tag})
}

// Store returns the state machine, to be read only.
func (r *Replica) Store() *kv.Store { return r.store }

// Change is a kind of membership change.
type Change uint8

// The changes.
const (
	Add     Change = 1 + iota // as a voter; a learner becomes one
	Learner                   // as one that gets the log and has no vote
	Remove
)

// maxAddr is the longest address of a member.
const maxAddr = kv.MaxValue

// Change proposes a change of membership; like Propose. A voter goes by way of a joint
// configuration, since it may be the leader by then; the answer comes when that is left, and the
// replica is not needed any more. A leader that is to go hands over instead, and the next one is to
// be asked. A change that is so already is proposed all the same and changes nothing: see settled.
// Errors: ErrMember, ErrLeader.
func (r *Replica) Change(what Change, id uint64, addr string, tag uint64) error {
	if r.state != raft.StateLeader || r.err != nil {
		return ErrLeader
	}
	t, err := r.checkMember(what, id, addr)
	if err != nil {
		return err
	}
	if what == Remove && id == r.cfg.ID && r.handOver() {
		return ErrLeader
	}
	if m := (Member{what, id, addr}); r.settled(m) {
		return r.single(t, m, proposal{tag: tag, settled: true})
	}
	if what != Add && slices.Contains(r.log.conf.GetVoters(), id) {
		return r.enter([]Member{{what, id, addr}}, tag, true)
	}
	return r.single(t, Member{what, id, addr}, proposal{tag: tag})
}

// Check says what is wrong with changes that are asked for together, and whether they would change
// nothing. The error is ErrMember.
func (r *Replica) Check(list []Member) (settled bool, err error) {
	_, err = r.joint(list)
	return !slices.ContainsFunc(list, func(m Member) bool { return !r.settled(m) }), err
}

// Removed reports whether this replica was a member and has applied that it is none any more.
func (r *Replica) Removed() bool {
	_, member := r.members[r.cfg.ID]
	return !member && len(r.members) > 0
}

// Voters returns the members that have a vote, in order. While the configuration is joint it is
// those of the new one.
func (r *Replica) Voters() []uint64 { return slices.Sorted(slices.Values(r.log.conf.GetVoters())) }

// ErrBehind is a member that has not caught up. It may later.
var ErrBehind = errors.New("replica: not yet")

// maxLag is how many committed entries a member may lack that has caught up.
const maxLag = 1000

// Behind says why a member has not caught up, as the leader knows: its error is ErrBehind, or
// ErrLeader if this replica does not lead. A member that has not answered this leader is behind.
func (r *Replica) Behind(id uint64) error {
	if !r.Leads() {
		return ErrLeader
	}
	match := uint64(0)
	r.rn.WithProgress(func(of uint64, _ raft.ProgressType, p tracker.Progress) {
		if of == id {
			match = p.Match
		}
	})
	switch {
	case match == 0:
		return fmt.Errorf("%w: replica %d has not had the log yet", ErrBehind, id)
	case match+maxLag < r.committed:
		return fmt.Errorf("%w: replica %d lacks %d entries", ErrBehind, id, r.committed-match)
	}
	return nil
}

// Leader returns the leader's id, 0 if none is known.
func (r *Replica) Leader() uint64 { return r.leader }

// settled reports whether a change would change nothing: most likely it is the repeat of one whose
// answer was lost. It is proposed as any other, so that the answer is right: a leader that was
// deposed, or a change under way, may have other members. Raft lets it pass only if no change is
// under way, so the members are the same when it is applied.
func (r *Replica) settled(m Member) bool {
	addr, member := r.members[m.ID]
	switch conf := r.log.conf; m.Change {
	case Add:
		return member && addr == m.Addr && slices.Contains(conf.GetVoters(), m.ID)
	case Learner:
		return member && addr == m.Addr && slices.Contains(conf.GetLearners(), m.ID)
	default:
		return !member
	}
}

// single proposes a change of one member, without a joint configuration.
func (r *Replica) single(t pb.ConfChangeType, m Member, p proposal) error {
	cc := &pb.ConfChange{Type: t.Enum(), NodeId: new(m.ID)}
	if m.Change != Remove {
		cc.Context = []byte(m.Addr)
	}
	_, data, err := pb.MarshalConfChange(cc)
	if err != nil {
		return err
	}
	return r.proposeChange(pb.EntryConfChange, data, p)
}

// checkMember says what is wrong with one change, or raft's type of it.
func (r *Replica) checkMember(what Change, id uint64, addr string) (pb.ConfChangeType, error) {
	t, ok := map[Change]pb.ConfChangeType{Add: pb.ConfChangeAddNode,
		Learner: pb.ConfChangeAddLearnerNode, Remove: pb.ConfChangeRemoveNode}[what]
	switch {
	case !ok:
		return t, fmt.Errorf("%w: there is no change %d", ErrMember, what)
	case id == 0:
		return t, fmt.Errorf("%w: replica 0", ErrMember)
	case what != Remove && (addr == "" || len(addr) > maxAddr):
		return t, fmt.Errorf("%w: address of %d bytes, want 1 to %d", ErrMember, len(addr), maxAddr)
	}
	return t, nil
}

func (r *Replica) proposeChange(typ pb.EntryType, data []byte, p proposal) error {
	defer r.guard()
	r.settle()
	r.offer() // what came before comes first, if it does not gather
	entries := []*pb.Entry{{Type: &typ, Data: data}}
	err := r.rn.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: new(r.cfg.ID), Entries: entries})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMember, err)
	}
	r.changed, r.rest.level = true, false
	r.proposed.push(p)
	return nil
}

// Transfer asks the leader to hand over to another voter. Transferring tells when that has ended.
func (r *Replica) Transfer(id uint64) {
	if r.Leads() {
		defer r.guard()
		r.changed, r.early.handing = true, true
		r.settle()
		r.rn.TransferLeader(id)
	}
}

// Transferring reports whether this replica leads, and hands over.
func (r *Replica) Transferring() bool {
	return r.Leads() && r.rn.BasicStatus().LeadTransferee != raft.None
}

// Campaign starts an election now: for tests and for the first leader of a cluster.
func (r *Replica) Campaign() {
	if r.err == nil {
		defer r.guard()
		r.changed = true
		r.settle()
		_ = r.rn.Campaign()
	}
}

// quiet drops raft's log. Panics stay: see guard.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Panic(v ...any)          { panic(fmt.Sprint(v...)) }

func (quiet) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (quiet) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

// Elsewhere is the answer to a request that only the leader takes.
func (r *Replica) Elsewhere() kv.Answer { return r.elsewhere() }

// Saving reports whether a save is under way, which some answers to messages wait for.
func (r *Replica) Saving() bool { return r.saving }

// TickTime is the unit of Raft's time now: the longest that the log says while it changes.
func (r *Replica) TickTime() time.Duration { return r.cfg.Tick }

// ElectionTimeout is that of now, see Config.
func (r *Replica) ElectionTimeout() time.Duration { return r.cfg.ElectionTimeout() }

// TickFor is that of now, see Config.
func (r *Replica) TickFor(sync time.Duration) time.Duration { return r.cfg.TickFor(sync) }

// Leases reports whether reads may be under a lease: then each event is to be told the time.
func (r *Replica) Leases() bool { return r.cfg.Lease > 0 }
