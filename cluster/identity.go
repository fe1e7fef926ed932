package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/userspace-rpc/erpc/erpc"
)

// identity returns the name that the server's certificate is to have.
func (e *Entry) identity() string {
	if e.Identity != "" {
		return e.Identity
	}
	host, _, _ := net.SplitHostPort(e.Addr) // was checked when the entry was read
	return host
}

// Authorize demands of a server that its certificate has the identity in its entry: a DNS name, an
// IP address, or a SPIFFE ID. It is for erpc.Config.Authorize of the Loops of clients, beside TLS,
// which has checked by whom the certificate is. A server whose address stands in no entry, since it
// is reached over shared memory or its entry has the name of a host, may have the identity of any
// entry. It refuses peers with a shared key, which tells no member from another, and clients. A
// process of this user over shared memory (erpc.Config.TrustLocal) needs no certificate. Errors:
// ErrIdentity.
func (r *Resolver) Authorize(_ context.Context, peer erpc.ConnectionState) error {
	if !peer.Client {
		return fmt.Errorf("%w: %v is a client", ErrIdentity, peer.Peer)
	}
	if peer.UID >= 0 {
		return nil
	}
	cert := peer.Certificate()
	if cert == nil {
		return fmt.Errorf("%w: %v has no certificate", ErrIdentity, peer.Peer)
	}
	wanted := r.identities(peer.Peer.AddrPort())
	for _, id := range wanted {
		if strings.Contains(id, "://") {
			if u := peer.SPIFFE(); u != nil && u.String() == id {
				return nil
			}
		} else if cert.VerifyHostname(id) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %v has a certificate for %q %v, not for one of %q", ErrIdentity, peer.Peer,
		peer.DNSNames(), peer.SPIFFE(), wanted)
}

// identities returns those of the entries with an address, or of all if there are none with it.
func (r *Resolver) identities(at netip.AddrPort) (list []string) {
	r.mu.Lock()
	entries := slices.Concat(r.choice.Preferred, r.choice.Spares)
	r.mu.Unlock()
	var all []string
	for i := range entries {
		all = append(all, entries[i].identity())
		if ap, err := netip.ParseAddrPort(entries[i].At(r.cfg.Transport)); err == nil &&
			netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()) == at {
			list = append(list, entries[i].identity())
		}
	}
	if len(list) == 0 {
		return all
	}
	return list
}

// is reports whether an entry is the same registration.
func (e *Entry) is(o Entry) bool { return e.Addr == o.Addr && e.Instance == o.Instance }

// trusted returns a view without the entries that Config.Trusts takes for none, and these.
func (c *Config) trusted(v View) (left View, bad []Entry) {
	if c.Trusts == nil {
		return v, nil
	}
	left = v
	left.Entries = nil
	for _, e := range v.Entries {
		if c.Trusts(e.identity()) {
			left.Entries = append(left.Entries, e)
		} else {
			bad = append(bad, e)
		}
	}
	return left, bad
}
