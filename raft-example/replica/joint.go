package replica

import (
	"fmt"
	"maps"
	"slices"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Member is one part of a change of several members at once.
type Member struct {
	Change Change `json:"change"`
	ID     uint64 `json:"id"`
	Addr   string `json:"addr,omitempty"` // to add it
}

// MaxChanges bounds the parts of one change.
const MaxChanges = 64

// Reconfigure proposes to change any members at once, by joint consensus (Raft dissertation,
// section 4.3): until the change is complete, elections and commits need a majority of the old
// voters and one of the new. The leader leaves the joint configuration once it has entered it; one
// that is to go hands over first. Like Propose: the answer comes when it is entered;
// Status.Outgoing is empty again when it is left. If all of it is so already nothing is changed, as
// with Change. Errors: ErrMember, ErrLeader.
func (r *Replica) Reconfigure(list []Member, tag uint64) error {
	return r.enter(list, tag, false)
}

// enter proposes to enter a joint configuration. If it is to be whole, the answer comes when it is
// left again.
func (r *Replica) enter(list []Member, tag uint64, whole bool) error {
	if r.state != raft.StateLeader || r.err != nil {
		return ErrLeader
	}
	cc, err := r.joint(list)
	if err != nil {
		return err
	}
	if settled, _ := r.Check(list); settled {
		t := cc.Changes[0].GetType()
		return r.single(t, list[0], proposal{tag: tag, settled: true})
	}
	data, err := proto.Marshal(cc)
	if err != nil {
		return err
	}
	return r.proposeChange(pb.EntryConfChangeV2, data, proposal{tag: tag, whole: whole})
}

// joint makes the change of a list, or says what is wrong with it.
func (r *Replica) joint(list []Member) (*pb.ConfChangeV2, error) {
	if len(list) == 0 || len(list) > MaxChanges {
		return nil, fmt.Errorf("%w: %d parts, want 1 to %d", ErrMember, len(list), MaxChanges)
	}
	cc := &pb.ConfChangeV2{Transition: pb.ConfChangeTransitionJointExplicit.Enum()}
	voters, addrs := map[uint64]bool{}, map[uint64]string{}
	for _, id := range r.log.conf.GetVoters() {
		voters[id] = true
	}
	seen := map[uint64]bool{}
	for _, m := range list {
		t, err := r.checkMember(m.Change, m.ID, m.Addr)
		if err == nil && seen[m.ID] {
			err = fmt.Errorf("%w: replica %d is there twice", ErrMember, m.ID)
		}
		if err != nil {
			return nil, err
		}
		seen[m.ID] = true
		if delete(voters, m.ID); m.Change == Add {
			voters[m.ID] = true
		}
		if m.Change != Remove {
			addrs[m.ID] = m.Addr
		}
		cc.Changes = append(cc.Changes, &pb.ConfChangeSingle{Type: t.Enum(), NodeId: new(m.ID)})
	}
	if len(voters) == 0 {
		return nil, fmt.Errorf("%w: nobody would have a vote", ErrMember)
	}
	cc.Context = appendMembers(nil, addrs)
	return cc, nil
}

// reconfigure applies a change of several members, or, if it is empty, the end of one. A member
// that has left is forgotten then: until then its vote counts.
func (r *Replica) reconfigure(data []byte) {
	cc := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(data, cc); err != nil {
		r.fail(fmt.Errorf("%w: %w", ErrMember, err))
		return
	}
	var addrs map[uint64]string
	if len(cc.Context) > 0 {
		var rest []byte
		var ok bool
		if addrs, rest, ok = parseMembers(cc.Context); !ok || len(rest) > 0 {
			r.fail(fmt.Errorf("%w: its addresses", ErrMember))
			return
		}
	}
	r.void()
	clear(r.early.acks)
	matched := r.matched()
	r.log.changes = true
	conf := r.rn.ApplyConfChange(cc)
	r.log.changes = false
	r.log.conf, r.left = conf, 0
	maps.Copy(r.members, addrs)
	for id := range r.members {
		is := false
		for _, ids := range [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(),
			conf.GetLearnersNext()} {
			is = is || slices.Contains(ids, id)
		}
		if !is {
			r.part(id, matched)
		}
	}
	if len(conf.GetVotersOutgoing()) == 0 {
		for _, tag := range r.joined {
			r.host.Answer(tag, &kv.Answer{Status: kv.OK})
		}
		r.joined = nil
	}
}
