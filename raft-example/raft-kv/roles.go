package main

import (
	"crypto/tls"
	"crypto/x509"
	"path"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// roleFlags tell members from clients.
type roleFlags struct {
	PeerName      []string `help:"Only certificates with such a name or SPIFFE ID speak for members; * is any part between slashes." placeholder:"PATTERN"`
	PeersAnywhere bool     `help:"Take members' messages from any address: they are behind NAT or a proxy."`
}

// trust makes of the flags what a replica trusts. The keys are loaded. This replica must be one that
// the others with the same flags take for a member: else they would elect nobody.
func (f *roleFlags) trust(n *netFlags) (t node.Trust, err error) {
	t = node.Trust{Certificates: f.PeerName, Anywhere: f.PeersAnywhere}
	for _, p := range f.PeerName {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return t, cli.Usagef("--peer-name %q: not a pattern", p)
		}
	}
	switch {
	case len(f.PeerName) == 0:
		return t, nil
	case f.PeersAnywhere:
		return t, cli.Usagef("--peers-anywhere stands beside --peer-name: choose one")
	case n.TLSCert == "" || n.TLSCA == "":
		return t, cli.Usagef("--peer-name needs --tls-cert and --tls-ca")
	case n.TrustLocal:
		return t, cli.Usagef("--trust-local stands beside --peer-name: shared memory has no names")
	}
	own := &erpc.ConnectionState{TLS: &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{n.Leaf()}}}
	if !t.Holds(own) {
		return t, cli.Usagef("--peer-name %q: no name in --tls-cert %s matches, so the other members "+
			"would refuse this one", f.PeerName, n.TLSCert)
	}
	return t, nil
}
