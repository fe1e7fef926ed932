package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// inquiry is an admin request that waits until members have said who they are. It is etcd's check
// of a strict reconfiguration, and of who answers at an address:
//
//	a member that is added answers at its address, with its id, in this cluster, with its log;
//	a new one has a format, a tick and a lease that go with this one's
//	one that is to get a vote has got the log first, as a learner
//	while a member is added with a vote, all others with one answer
//	of those that have a vote afterwards a majority answers and has caught up
type inquiry struct {
	n      *Node
	req    erpc.ReqHandle
	a      *Admin
	left   int              // members that have not answered yet
	said   map[uint64]error // why a member is not there; nil: it is
	dialed []*erpc.Session  // for this alone
}

// probeTime is how long a member may take to say who it is: less than admin commands wait, and
// longer than a busy machine keeps a process waiting.
const probeTime = 2 * time.Second

// concerned returns whom a change concerns, and where they are.
func (n *Node) concerned(a *Admin) map[uint64]string {
	ask := map[uint64]string{}
	for _, id := range n.rep.Voters() {
		ask[id], _ = n.rep.Member(id)
	}
	for _, m := range a.list() {
		if ask[m.ID] = m.Addr; m.Change == replica.Remove {
			delete(ask, m.ID)
		}
	}
	return ask
}

// inquire asks members who they are, and then goes on with a request.
func (n *Node) inquire(req erpc.ReqHandle, a *Admin, members map[uint64]string) {
	if n.admin.inquiries >= maxInquiries {
		n.answer(req, &kv.Answer{Status: kv.Busy})
		return
	}
	n.admin.inquiries++
	n.moved = true
	q := &inquiry{n: n, req: req, a: a, left: 1, said: map[uint64]error{}}
	for id, addr := range members {
		if at, _ := n.rep.Member(id); id == n.cfg.ID && addr == at {
			q.said[id] = nil
			continue
		}
		q.said[id] = fmt.Errorf("replica %d does not answer at %s", id, addr)
		if q.probe(id, addr) {
			q.left++
		}
	}
	q.answered()
}

// probe asks what is at an address for a header, and a new member for its Hello.
func (q *inquiry) probe(id uint64, addr string) bool {
	n := q.n
	var s *erpc.Session
	at, member := n.rep.Member(id)
	if member && at == addr {
		s = n.peer(id).session()
	} else if own, err := n.rpc.CreateSession(addr); err == nil {
		s, q.dialed = own, append(q.dialed, own)
	}
	if s == nil {
		return false
	}
	if member {
		return q.ask(id, addr, s, TypeRaft, n.appendHeader(nil, taken|saysHello, id))
	}
	h := n.hello()
	return q.ask(id, addr, s, TypeHello, h.append(n.appendHeader(nil, n.announce(), id)))
}

// ask sends a request. A program of format 0 knows no Hello, and is asked for a header then, if the
// cluster's version is its own.
func (q *inquiry) ask(id uint64, addr string, s *erpc.Session, typ uint8, body []byte) bool {
	n := q.n
	req, err := n.rpc.Alloc(len(body))
	if err != nil {
		return false
	}
	copy(req.Data(), body)
	_, err = n.rpc.EnqueueRequest(s, erpc.Request{Type: typ, Req: req, Timeout: probeTime,
		Done: func(c erpc.Completion) {
			c.Req.Free()
			switch {
			case c.Err == nil:
				q.said[id] = q.who(id, addr, c.Session, c.Resp.Data())
				c.Resp.Free()
			case errors.Is(c.Err, erpc.ErrNoHandler) && n.needs() > 0:
				q.said[id] = fmt.Errorf("replica %d at %s runs a program of format 0, want %d", id, addr,
					n.needs())
			case errors.Is(c.Err, erpc.ErrNoHandler) && typ == TypeHello &&
				q.ask(id, addr, s, TypeRaft, n.appendHeader(nil, taken|saysHello, id)):
				return
			}
			q.answered()
		}})
	if err != nil {
		req.Free()
	}
	return err == nil
}

// who says why an answer is not that of a member. Whether it takes this replica for one counts of a
// new member only: one that does not know the leader yet may lag behind.
func (q *inquiry) who(id uint64, addr string, s *erpc.Session, b []byte) error {
	n := q.n
	if len(b) < headerSize {
		return fmt.Errorf("what answers at %s is no replica", addr)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	known := n.known.durable[id]
	if p := n.peers[id]; p != nil && p.log != 0 {
		known = p.log
	}
	_, member := n.rep.Member(id)
	verdict := field(0) & 0xff
	switch {
	case field(1) != n.cfg.Cluster:
		return fmt.Errorf("%s is of cluster %d, not %d", addr, field(1), n.cfg.Cluster)
	case field(2) != id:
		return fmt.Errorf("%s is replica %d, not %d", addr, field(2), id)
	case n.cfg.Trust.ByRole() && !n.cfg.Trust.Holds(s.State()):
		return fmt.Errorf("replica %d at %s has not the role of a member", id, addr)
	case known != 0 && field(4) != known:
		return fmt.Errorf("replica %d at %s has lost the log that it had: give it a new id", id, addr)
	}
	if h, ok := parseHello(b); ok {
		own := n.hello()
		if err := own.suits(&h); err != nil {
			return fmt.Errorf("replica %d at %s does not go with this one: %w", id, addr, err)
		}
	}
	if !member && verdict != taken && verdict != notYet && verdict != unsaid {
		return fmt.Errorf("replica %d at %s refuses this leader, start it with --join", id, addr)
	}
	return nil
}

// answered counts an answer, and goes on after the last one.
func (q *inquiry) answered() {
	if q.left--; q.left > 0 {
		return
	}
	n := q.n
	for _, s := range q.dialed {
		if s.Err() == nil {
			_ = n.rpc.CloseSession(s)
		}
	}
	n.admin.inquiries--
	n.moved = true
	if !n.rep.Leads() {
		n.decline(q.req, replica.ErrLeader)
		return
	}
	if q.a.Transfer {
		if err := q.sound(q.a.ID); err != nil {
			n.decline(q.req, fmt.Errorf("%w: %w", ErrUnsafe, err))
			return
		}
		n.handOver(q.req, q.a.ID)
		return
	}
	for _, m := range q.a.list() {
		if err := q.said[m.ID]; err != nil && m.Change != replica.Remove {
			n.decline(q.req, fmt.Errorf("%w: %w", ErrUnsafe, err))
			return
		}
	}
	if err := q.quorum(); err != nil {
		n.decline(q.req, err)
		return
	}
	for _, m := range q.a.list() {
		if _, member := n.rep.Member(m.ID); !member && m.Change == replica.Add {
			n.join(q.req, m)
			return
		}
	}
	n.change(q.req, q.a)
}

// sound says why a member does not count: it is not there, or has not caught up.
func (q *inquiry) sound(id uint64) error {
	err, asked := q.said[id]
	switch {
	case !asked:
		return fmt.Errorf("%w: replica %d is new", replica.ErrBehind, id)
	case err != nil || id == q.n.cfg.ID:
		return err
	}
	return q.n.rep.Behind(id)
}

// quorum says why a change could cost the quorum: ErrUnsafe, or replica.ErrBehind.
func (q *inquiry) quorum() error {
	now := q.n.rep.Voters()
	voters := map[uint64]bool{}
	for _, id := range now {
		voters[id] = true
	}
	adds := false
	for _, m := range q.a.list() {
		delete(voters, m.ID)
		if m.Change == replica.Add {
			voters[m.ID] = true
			adds = adds || !slices.Contains(now, m.ID)
		}
	}
	sound, behind := 0, error(nil)
	var missing error
	for _, id := range slices.Sorted(maps.Keys(voters)) {
		_, member := q.n.rep.Member(id)
		switch err := q.sound(id); {
		case !member: // it gets the log first
			sound++
		case err == nil:
			sound++
		case errors.Is(err, replica.ErrBehind):
			behind = err
		default:
			missing = err
		}
	}
	switch most := len(voters)/2 + 1; {
	case missing != nil && adds:
		return fmt.Errorf("%w: %w: remove it before another one gets a vote", ErrUnsafe, missing)
	case behind != nil && (adds || sound < most):
		return behind
	case sound < most:
		return fmt.Errorf("%w: %d of %d voters would be there, want %d: %w", ErrUnsafe, sound,
			len(voters), most, missing)
	}
	return nil
}
