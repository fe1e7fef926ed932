package node

import (
	"path"

	"github.com/userspace-rpc/erpc/erpc"
)

// Role is what some peers have and others have not, where packets are secure. Nobody has the zero
// value.
type Role struct {
	// Certificates are patterns of package path: one must match a DNS name, an IP address or the
	// SPIFFE ID in the certificate of a peer. The Rpcs' Config.TLS must demand certificates.
	Certificates []string
	// Key reports whether a shared key is one that peers of the role have and others have not. Name is
	// that of erpc.ConnectionState.Key.
	Key func(name string) bool
}

// ByRole reports whether there is such a role.
func (r *Role) ByRole() bool { return len(r.Certificates) > 0 || r.Key != nil }

// String says by what those who have it are known, as a part of a sentence; "" if there is none.
func (r *Role) String() string {
	switch {
	case len(r.Certificates) > 0:
		return "by the names in their certificates"
	case r.Key != nil:
		return "by their shared key"
	}
	return ""
}

// Holds reports whether a peer has the role. State is nil if its packets are plain.
func (r *Role) Holds(state *erpc.ConnectionState) bool {
	if state == nil {
		return false
	}
	if r.Key != nil && state.PSK {
		return r.Key(state.Key)
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
	for _, pattern := range r.Certificates {
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				return true
			}
		}
	}
	return false
}

// Admins says from whom this node takes changes, and requests for the whole state.
func (n *Node) Admins() string {
	if r := &n.cfg.Admins; r.ByRole() {
		return "from admins, known " + r.String()
	}
	return "from any client"
}

// asAdmin is a handler of what admins alone may ask for. Others get CodePermissionDenied.
func asAdmin(fn func(*Node, erpc.ReqHandle)) func(*Node, erpc.ReqHandle) {
	return func(n *Node, req erpc.ReqHandle) {
		if r := &n.cfg.Admins; r.ByRole() && !r.Holds(req.State()) {
			n.moved = true
			_ = req.RespondError(&erpc.Error{Code: erpc.CodePermissionDenied,
				Text: "admin commands are taken " + n.Admins()})
			return
		}
		fn(n, req)
	}
}
