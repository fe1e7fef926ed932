package node

import (
	"path"

	"github.com/userspace-rpc/erpc/erpc"
)

// Trust says by what a Node knows that a session is a member's. With the zero value it is the
// member's address in the log, from which its requests must come: that stops mistakes, and not who
// can send from an address that is not his.
type Trust struct {
	// Certificates are patterns of package path: one must match a DNS name, an IP address or the
	// SPIFFE ID in the certificate of a peer. The Rpcs' Config.TLS must demand certificates.
	Certificates []string
	// Key reports whether a shared key is one that members have and clients have not. Name is that
	// of erpc.ConnectionState.Key.
	Key func(name string) bool
	// Anywhere takes messages from any address: members are behind NAT or a proxy.
	Anywhere bool
}

// String says it as a part of a sentence.
func (t *Trust) String() string {
	switch {
	case len(t.Certificates) > 0:
		return "by the names in their certificates"
	case t.Key != nil:
		return "by their shared key"
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

// ByRole reports whether peers have a role of their own, which clients do not.
func (t *Trust) ByRole() bool { return len(t.Certificates) > 0 || t.Key != nil }

// Holds reports whether a peer has the peers' role. State is nil if its packets are plain.
func (t *Trust) Holds(state *erpc.ConnectionState) bool {
	if state == nil {
		return false
	}
	if t.Key != nil && state.PSK {
		return t.Key(state.Key)
	}
	if state.Certificate() == nil {
		return false
	}
	cert := state.Certificate()
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if id := state.SPIFFE(); id != nil {
		names = append(names, id.String())
	}
	for _, pattern := range t.Certificates {
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				return true
			}
		}
	}
	return false
}

// admit returns the peer of this id if a session is one in which it may speak, else nil.
func (n *Node) admit(id uint64, s *erpc.Session) *peer {
	switch t := &n.cfg.Trust; {
	case t.ByRole():
		if !t.Holds(s.State()) {
			return nil
		}
	case !t.Anywhere && !n.isAt(id, s):
		return nil
	}
	p := n.peer(id)
	if p == nil {
		return nil
	}
	if s == p.sess {
		p.out = s
	} else {
		p.in = s
	}
	return p
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
