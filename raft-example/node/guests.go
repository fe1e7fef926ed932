package node

import (
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

// guests are the addresses that members call a member's, or a change in this replica's log that is
// not applied: see "Who speaks for a member". A session to each of them finds the address of its
// name.
type guests struct {
	at    map[string]*erpc.Session
	until uint64        // what says so is as of this index: once that is applied the log has it
	told  Members       // the last list that was behind the log
	roots []string      // that Config.Resolve found last
	asked bool          // somebody, and it has not answered yet
	next  monotime.Time // when the next one may be asked
	found monotime.Time // when Config.Resolve may be called again
	turn  int           // of the members and roots that are asked in turn
}

// maxGuests bounds the addresses, and the roots.
const maxGuests = 64

// resolveEvery is how often Config.Resolve is called at most.
const resolveEvery = time.Second

// has reports whether a session comes from a guest. If it does not somebody is asked for guests, so
// that it may the next time.
func (g *guests) has(n *Node, s *erpc.Session) bool {
	if n.rep.Applied() < g.until {
		for _, own := range g.at {
			if own.Peer() == s.Peer() {
				return true
			}
		}
	}
	g.ask(n)
	return false
}

// ask asks one member or root for all members' addresses, once in a tick.
func (g *guests) ask(n *Node) {
	now := n.cfg.Clock()
	if g.asked || !due(&g.next, now, max(n.rep.TickTime(), time.Millisecond)) {
		return
	}
	g.settle(n)
	if n.cfg.Resolve != nil && due(&g.found, now, resolveEvery) {
		n.cfg.Resolve(func(addrs []string) { g.roots = addrs[:min(len(addrs), maxGuests)] })
	}
	ids := n.rep.MemberIDs()
	for range len(ids) + len(g.roots) {
		g.turn++
		if g.query(n, ids, g.turn%(len(ids)+len(g.roots))) {
			g.asked, n.moved = true, true
			return
		}
	}
}

// query asks one of the members, which come first, and the roots. It reports whether it could.
func (g *guests) query(n *Node, ids []uint64, i int) bool {
	if i < len(ids) {
		if ids[i] == n.cfg.ID {
			return false
		}
		p := n.peer(ids[i])
		s := p.session()
		return s != nil && p.proved && g.send(n, s, false)
	}
	root := g.roots[i-len(ids)]
	if n.rep.IsAddress(root) {
		return false
	}
	s, err := n.rpc.CreateSession(root)
	if err != nil {
		return false
	}
	if !g.send(n, s, true) {
		_ = n.rpc.CloseSession(s)
		return false
	}
	return true
}

// send asks for the members in a session that this side has dialled. One for this alone is closed
// then.
func (g *guests) send(n *Node, s *erpc.Session, alone bool) bool {
	req, err := n.rpc.Alloc(0)
	if err != nil {
		return false
	}
	_, err = n.rpc.EnqueueRequest(s, erpc.Request{Type: TypeMembers, Req: req,
		Timeout: n.rep.ElectionTimeout(), Done: func(c erpc.Completion) {
			c.Req.Free()
			g.asked = false
			if c.Err == nil {
				if m, err := ParseMembers(c.Resp.Data()); err == nil && m.Cluster == n.cfg.Cluster {
					g.told = m
					g.settle(n)
				}
				c.Resp.Free()
			}
			if alone && s.Err() == nil {
				_ = n.rpc.CloseSession(s)
			}
		}})
	if err != nil {
		req.Free()
	}
	return err == nil
}

// settle has as guests those that are not members here of the last list, and of the changes in the
// log. A list that the log was not behind says nothing new, and may be of one that has left.
func (g *guests) settle(n *Node) {
	addrs, index := n.rep.Coming()
	if g.told.Index > n.rep.Applied() {
		addrs, index = append(addrs, g.told.Addrs...), max(index, g.told.Index)
	}
	old := g.at
	g.at, g.until = map[string]*erpc.Session{}, index
	for _, addr := range addrs {
		if g.at[addr] != nil || n.rep.IsAddress(addr) || len(g.at) == maxGuests {
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
		g.at[addr], n.moved = s, true
	}
	for _, s := range old {
		if s.Err() == nil {
			_ = n.rpc.CloseSession(s)
			n.moved = true
		}
	}
}
