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
	PeerName      []string `help:"Only certificates with such a name or SPIFFE ID speak for members." placeholder:"PATTERN"`
	PeerPSKFile   string   `name:"peer-psk-file" help:"Shared keys that members have and clients have not; members use the first one." placeholder:"FILE"`
	PeersAnywhere bool     `help:"Take members' messages from any address: they are behind NAT or a proxy."`
}

// args are the flags as another process gets them.
func (f *roleFlags) args() (list []string) {
	for _, p := range f.PeerName {
		list = append(list, "--peer-name="+p)
	}
	if f.PeerPSKFile != "" {
		list = append(list, "--peer-psk-file="+f.PeerPSKFile)
	}
	if f.PeersAnywhere {
		list = append(list, "--peers-anywhere")
	}
	return list
}

// trust loads the keys and makes of the flags what a replica trusts. This replica must be one that
// the others with the same flags take for a member: else they would elect nobody.
func (f *roleFlags) trust(n *netFlags) (t node.Trust, err error) {
	t = node.Trust{Certificates: f.PeerName, Anywhere: f.PeersAnywhere}
	n.Members("--peer-psk-file", f.PeerPSKFile)
	if err = n.Load(); err != nil {
		return t, err
	}
	for _, p := range f.PeerName {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return t, cli.Usagef("--peer-name %q: not a pattern", p)
		}
	}
	role := len(f.PeerName) > 0 || f.PeerPSKFile != ""
	switch {
	case role && f.PeersAnywhere:
		return t, cli.Usagef("--peers-anywhere stands beside --peer-name or --peer-psk-file: choose one")
	case role && n.TrustLocal:
		return t, cli.Usagef("--trust-local stands beside --peer-name or --peer-psk-file: " +
			"in shared memory nobody shows either")
	case f.PeerPSKFile != "" && n.PSKFile == "":
		return t, cli.Usagef("--peer-psk-file needs --psk-file, the keys of clients")
	case f.PeerPSKFile != "":
		t.Key = n.IsMember
		return t, nil
	case !role:
		return t, nil
	case n.TLSCert == "" || n.TLSCA == "":
		return t, cli.Usagef("--peer-name needs --tls-cert and --tls-ca")
	}
	own := &erpc.ConnectionState{TLS: &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{n.Leaf()}}}
	if !t.Holds(own) {
		return t, cli.Usagef("--peer-name %q: no name in --tls-cert %s matches, so the other members "+
			"would refuse this one", f.PeerName, n.TLSCert)
	}
	return t, nil
}
