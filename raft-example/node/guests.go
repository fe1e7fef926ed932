package node

import (
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

// guests are the addresses that members call a member's, and this replica's log does not: see "Who
// speaks for a member". A session to each of them finds the address of its name.
type guests struct {
	at    map[string]*erpc.Session
	asked bool          // a member, and it has not answered yet
	next  monotime.Time // when the next one may be asked
	turn  int           // of the members that are asked in turn
}

// maxGuests bounds the addresses.
const maxGuests = 64

// has reports whether a session comes from a guest. If it does not a member is asked for guests, so
// that it may the next time.
func (g *guests) has(n *Node, s *erpc.Session) bool {
	for _, own := range g.at {
		if own.Peer() == s.Peer() {
			return true
		}
	}
	g.ask(n)
	return false
}

// ask asks one member for all members' addresses, once in a tick.
func (g *guests) ask(n *Node) {
	now, tick := n.cfg.Clock(), n.rep.TickTime()
	if g.asked || now < g.next && g.next <= now.Add(tick) {
		return
	}
	g.next = now.Add(max(tick, time.Millisecond))
	ids := n.rep.MemberIDs()
	for range ids {
		g.turn++
		id := ids[g.turn%len(ids)]
		if id == n.cfg.ID {
			continue
		}
		if s := n.peer(id).session(); s != nil && g.send(n, id, s) {
			g.asked, n.moved = true, true
			return
		}
	}
}

func (g *guests) send(n *Node, id uint64, s *erpc.Session) bool {
	req, err := n.rpc.Alloc(0)
	if err != nil {
		return false
	}
	_, err = n.rpc.EnqueueRequest(s, erpc.Request{Type: TypeMembers, Req: req,
		Timeout: n.rep.ElectionTimeout(), Done: func(c erpc.Completion) {
			c.Req.Free()
			g.asked = false
			if c.Err != nil {
				return
			}
			if m, err := ParseMembers(c.Resp.Data()); err == nil && m.Cluster == n.cfg.Cluster &&
				n.admit(id, c.Session) != nil {
				g.take(n, m.Addrs)
			}
			c.Resp.Free()
		}})
	if err != nil {
		req.Free()
	}
	return err == nil
}

// take replaces the guests by those of a list that are not members here.
func (g *guests) take(n *Node, addrs []string) {
	old := g.at
	g.at = map[string]*erpc.Session{}
	for _, addr := range addrs {
		if n.rep.IsAddress(addr) || len(g.at) == maxGuests {
			continue
		}
		s := old[addr]
		delete(old, addr)
		if s == nil || s.Err() != nil {
			var err error
			if s, err = n.rpc.CreateSession(addr); err != nil {
				continue
			}
		}
		g.at[addr] = s
	}
	for _, s := range old {
		if s.Err() == nil {
			_ = n.rpc.CloseSession(s)
		}
	}
	n.moved = true
}
