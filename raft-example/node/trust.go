package node

import "github.com/userspace-rpc/erpc/erpc"

// Trust says by what a Node knows that a session is a member's. With the zero value it is the
// member's address in the log, from which its requests must come: that stops mistakes, and not who
// can send from an address that is not his.
type Trust struct {
	// Role is that of members, which clients have not.
	Role
	// Anywhere takes messages from any address: members are behind NAT or a proxy.
	Anywhere bool
}

// String says it as a part of a sentence.
func (t *Trust) String() string {
	switch {
	case t.ByRole():
		return t.Role.String()
	case t.Anywhere:
		return "from anywhere: any client may speak for a member"
	}
	return "by their addresses: that stops mistakes, not attackers"
}

// Trust says by what this node knows members now.
func (n *Node) Trust() string {
	t := &n.cfg.Trust
	if t.ByRole() || t.Anywhere || !n.rep.Memberless() {
		return t.String()
	}
	return t.String() + "; this replica knows no member yet, and hears anybody until it is added"
}

// admit returns the peer of this id if a session is one in which it may speak, else nil. A member
// is asked about once, until members change.
func (n *Node) admit(id uint64, s *erpc.Session) *peer {
	_, member := n.rep.Member(id)
	switch t := &n.cfg.Trust; {
	case n.outsider(s):
		return nil
	case t.ByRole() || t.Anywhere:
		if !member && n.follows(id) {
			return nil
		}
	case !n.isAt(id, s):
		return nil
	}
	p := n.peer(id)
	if p == nil || !member {
		return p
	}
	if at := n.rep.Changed(); p.since != at {
		p.since, p.in, p.out = at, nil, nil
	}
	if s == p.sess {
		p.out = s
	} else {
		p.in = s
	}
	return p
}

// outsider reports whether members are known by a role that a session's peer has not.
func (n *Node) outsider(s *erpc.Session) bool {
	t := &n.cfg.Trust
	return t.ByRole() && !t.Holds(s.State())
}

// follows reports whether this replica has another leader than one that is no member, and no change
// of members is on its way: then that one has left, and is to hear of it.
func (n *Node) follows(id uint64) bool {
	_, coming := n.rep.Coming()
	leader := n.rep.Leader()
	return leader != 0 && leader != id && coming == 0 && !n.rep.Memberless()
}

// isAt reports whether a session comes from, or leads to, the address of a member or guest.
func (n *Node) isAt(id uint64, s *erpc.Session) bool {
	if _, member := n.rep.Member(id); member {
		p := n.peer(id)
		own := p.session()
		return own != nil && (own == s || own.Peer() == s.Peer())
	}
	return n.rep.Memberless() || n.guests.has(n, s)
}
