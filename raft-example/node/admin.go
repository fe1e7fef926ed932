package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// Admin is a request of TypeAdmin, as JSON. Its answer is one of package kv: with Found if all of
// it was so already; of a bad change, Malformed, the value is the reason; Busy if it is to be asked
// for again, the value is why. A change that is refused since it could cost the quorum is an error
// with the code CodeFailedPrecondition, see ErrUnsafe. Who is no admin gets CodePermissionDenied,
// see Config.Admins.
type Admin struct {
	Cluster  uint64         `json:"cluster"`
	Change   replica.Change `json:"change,omitempty"`
	ID       uint64         `json:"id"`
	Addr     string         `json:"addr,omitempty"`
	Transfer bool           `json:"transfer,omitempty"` // make ID the leader
	// Members are changed at once, by joint consensus, instead of Change, ID and Addr.
	Members []replica.Member `json:"members,omitempty"`
	// Upgrade makes Version the cluster's instead, 0 for the newest that the leader's program knows.
	Upgrade bool  `json:"upgrade,omitempty"`
	Version uint8 `json:"version,omitempty"`
	// Timing makes these the cluster's tick and lease instead.
	Timing *replica.Timing `json:"timing,omitempty"`
	// Demote has a voter made a learner, which is refused without it: a voter is lost.
	Demote bool `json:"demote,omitempty"`
	// Force has a change made whatever its members say.
	Force bool `json:"force,omitempty"`
}

// ErrUnsafe is a change of membership or of the leader that was refused.
var ErrUnsafe = errors.New("node: refused")

// list is the change as a list.
func (a *Admin) list() []replica.Member {
	if len(a.Members) > 0 {
		return a.Members
	}
	return []replica.Member{{Change: a.Change, ID: a.ID, Addr: a.Addr}}
}

// admin is what the requests of TypeAdmin that are under way share.
type admin struct {
	inquiries int
	handing   *handing
	removed   bool // it is told
}

// handing is a request that waits for another leader.
type handing struct {
	req   erpc.ReqHandle
	id    uint64
	until monotime.Time
}

// maxInquiries bounds the requests that wait for members' answers.
const maxInquiries = 16

func (n *Node) onAdmin(req erpc.ReqHandle) {
	var a Admin
	switch err := json.Unmarshal(req.Data(), &a); {
	case err != nil:
		n.answer(req, &kv.Answer{Status: kv.Malformed})
	case a.Cluster != n.cfg.Cluster:
		n.answer(req, &kv.Answer{Status: kv.WrongCluster})
	case !n.rep.Leads():
		n.decline(req, replica.ErrLeader)
	case a.Upgrade:
		n.upgrade(req, a.Version)
	case a.Timing != nil:
		tag := n.waiting.put(req, 0)
		n.asked(tag, n.rep.Retime(*a.Timing, tag))
	case a.Transfer:
		n.transfer(req, &a)
	default:
		settled, err := n.rep.Check(a.list())
		if err == nil {
			err = n.demotes(&a)
		}
		switch {
		case err != nil:
			n.decline(req, err)
		case settled || a.Force:
			n.change(req, &a)
		default:
			n.inquire(req, &a, n.concerned(&a))
		}
	}
}

// demotes says which voter a change would make a learner without being told so.
func (n *Node) demotes(a *Admin) error {
	for _, m := range a.list() {
		if m.Change == replica.Learner && !a.Demote && slices.Contains(n.rep.Voters(), m.ID) {
			return fmt.Errorf("%w: replica %d has a vote, and would have none; --demote takes it",
				ErrUnsafe, m.ID)
		}
	}
	return nil
}

// change has the replica make a change.
func (n *Node) change(req erpc.ReqHandle, a *Admin) {
	tag := n.waiting.put(req, 0)
	var err error
	if len(a.Members) > 0 {
		err = n.rep.Reconfigure(a.Members, tag)
	} else {
		err = n.rep.Change(a.Change, a.ID, a.Addr, tag)
	}
	n.asked(tag, err)
}

// join has a new member get the log, before it may have a vote. The request is to be repeated.
func (n *Node) join(req erpc.ReqHandle, m replica.Member) {
	tag := n.waiting.put(req, 0)
	n.waiting.list[uint32(tag)].first = true
	n.asked(tag, n.rep.Change(replica.Learner, m.ID, m.Addr, tag))
}

const joining = "it gets the log and has no vote yet"

// asked goes on with a change that the replica was asked for.
func (n *Node) asked(tag uint64, err error) {
	if err == nil {
		n.work()
	} else if q, ok := n.waiting.take(tag); ok {
		n.decline(q.req, err)
	}
}

// decline answers a request that is not done.
func (n *Node) decline(req erpc.ReqHandle, err error) {
	answer := n.rep.Elsewhere()
	switch {
	case errors.Is(err, ErrUnsafe):
		n.moved = true
		_ = req.RespondError(&erpc.Error{Code: erpc.CodeFailedPrecondition,
			Text: strings.TrimPrefix(err.Error(), ErrUnsafe.Error()+": ")})
		return
	case errors.Is(err, replica.ErrBehind):
		answer = kv.Answer{Status: kv.Busy,
			Value: cut(strings.TrimPrefix(err.Error(), replica.ErrBehind.Error()+": "))}
	case !errors.Is(err, replica.ErrLeader):
		text := err.Error()
		for _, known := range []error{replica.ErrMember, ErrUpgrade, replica.ErrTiming} {
			text = strings.TrimPrefix(text, known.Error()+": ")
		}
		answer = kv.Answer{Status: kv.Malformed, Value: cut(text)}
	}
	n.answer(req, &answer)
}

// cut makes a text fit into an answer.
func cut(text string) kv.Value {
	v, _ := kv.MakeValue(text[:min(len(text), kv.MaxValue)])
	return v
}

// transfer makes another member the leader, if it is one that can lead.
func (n *Node) transfer(req erpc.ReqHandle, a *Admin) {
	addr, member := n.rep.Member(a.ID)
	switch {
	case a.ID == n.cfg.ID:
		n.answer(req, &kv.Answer{Status: kv.OK, Found: true})
	case !member || !slices.Contains(n.rep.Voters(), a.ID):
		n.decline(req, fmt.Errorf("%w: replica %d has no vote", ErrUnsafe, a.ID))
	default:
		n.inquire(req, a, map[uint64]string{a.ID: addr})
	}
}

// handOver asks for a transfer; handed answers.
func (n *Node) handOver(req erpc.ReqHandle, id uint64) {
	if n.admin.handing != nil {
		n.answer(req, &kv.Answer{Status: kv.Busy})
		return
	}
	n.admin.handing = &handing{req, id, n.cfg.Clock().Add(4 * n.rep.ElectionTimeout())}
	n.rep.Transfer(id)
	n.work()
}

// handed answers who has asked for another leader, once there is one or none came of it.
func (n *Node) handed(now monotime.Time) {
	h := n.admin.handing
	if h == nil {
		return
	}
	leader, over := n.rep.Leader(), now >= h.until
	switch {
	case leader == h.id:
		n.answer(h.req, &kv.Answer{Status: kv.OK})
	case n.rep.Leads() && (over || !n.rep.Transferring()):
		n.decline(h.req, fmt.Errorf("%w: replica %d did not take over within %v", ErrUnsafe, h.id,
			n.rep.ElectionTimeout()))
	case over || leader != 0 && leader != n.cfg.ID:
		n.answer(h.req, &kv.Answer{Status: kv.Retry}) // another one leads, or nobody: see there
	default:
		return
	}
	n.admin.handing = nil
}

// isRemoved reports whether this replica is no member any more: by its own log or, as it may have
// been away, since most others say so while nobody leads it.
func (n *Node) isRemoved() bool {
	if n.rep.Removed() || n.rep.Leader() != 0 {
		return n.rep.Removed()
	}
	others, disown := 0, 0
	for _, id := range n.rep.Voters() {
		if id == n.cfg.ID {
			continue
		}
		others++
		if p := n.peers[id]; p != nil && p.disowns {
			disown++
		}
	}
	return disown > others/2
}

// tellRemoved says once in the log that this replica is no member any more.
func (n *Node) tellRemoved() {
	removed := n.isRemoved()
	if removed && !n.admin.removed {
		n.cfg.Logger.Warn("this replica is no member any more: it may stop", "replica", n.cfg.ID)
	}
	n.admin.removed = removed
}
