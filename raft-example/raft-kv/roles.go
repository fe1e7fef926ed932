package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// roleFlags tell members and admins from clients.
type roleFlags struct {
	PeerName      []string `help:"Only certificates with such a name or SPIFFE ID speak for members." placeholder:"PATTERN"`
	PeerPSKFile   string   `name:"peer-psk-file" help:"Shared keys that members have and clients have not; members use the first one." placeholder:"FILE"`
	PeersAnywhere bool     `help:"Take members' messages from any address: they are behind NAT or a proxy."`
	AdminName     []string `help:"Only certificates with such a name or SPIFFE ID may change members, leader and version, and back up." placeholder:"PATTERN"`
	AdminPSKFile  string   `name:"admin-psk-file" help:"Shared keys of those who may, and of nobody else." placeholder:"FILE"`
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
	for _, p := range f.AdminName {
		list = append(list, "--admin-name="+p)
	}
	if f.AdminPSKFile != "" {
		list = append(list, "--admin-psk-file="+f.AdminPSKFile)
	}
	return list
}

// configure loads the keys and makes of the flags what a replica trusts. This replica must be one
// that the others with the same flags take for a member, else they would elect nobody, and for no
// admin.
func (f *roleFlags) configure(n *netFlags, cfg *node.Config) (err error) {
	n.Members("--peer-psk-file", f.PeerPSKFile)
	n.Admins("--admin-psk-file", f.AdminPSKFile)
	if err = n.Load(); err != nil {
		return err
	}
	if f.PeersAnywhere && (len(f.PeerName) > 0 || f.PeerPSKFile != "") {
		return cli.Usagef("--peers-anywhere stands beside --peer-name or --peer-psk-file: choose one")
	}
	t := node.Trust{Anywhere: f.PeersAnywhere}
	if t.Role, err = n.role("--peer", f.PeerName, f.PeerPSKFile, n.IsMember); err != nil {
		return err
	}
	admins, err := n.role("--admin", f.AdminName, f.AdminPSKFile, n.IsAdmin)
	if err != nil {
		return err
	}
	for _, a := range f.AdminName {
		for _, p := range f.PeerName {
			if overlap(a, p) {
				return cli.Usagef("--admin-name %q, --peer-name %q: a certificate would match both: give "+
					"admins and members other names", a, p)
			}
		}
	}
	own := &erpc.ConnectionState{TLS: &tls.ConnectionState{
		PeerCertificates: []*x509.Certificate{n.Leaf()}}}
	switch {
	case len(f.PeerName) > 0 && !t.Holds(own):
		return cli.Usagef("--peer-name %q: no name in --tls-cert %s matches, so the other members "+
			"would refuse this one", f.PeerName, n.TLSCert)
	case len(f.AdminName) > 0 && admins.Holds(own):
		return cli.Usagef("--admin-name %q: a name in this member's --tls-cert %s matches, and members "+
			"are no admins: give these certificates of their own", f.AdminName, n.TLSCert)
	}
	cfg.Trust, cfg.Admins = t, admins
	return nil
}

// role makes a role of its flags, which begin with a prefix. Holds tells the names of its keys. The
// files are loaded.
func (f *netFlags) role(prefix string, names []string, file string, holds func(name string) bool) (
	r node.Role, err error,
) {
	for _, p := range names {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return r, cli.Usagef("%s-name %q: not a pattern", prefix, p)
		}
	}
	switch {
	case len(names) == 0 && file == "":
		return r, nil
	case f.TrustLocal:
		return r, cli.Usagef("--trust-local stands beside %s-name or %[1]s-psk-file: "+
			"in shared memory nobody shows either", prefix)
	case file != "" && f.PSKFile == "":
		return r, cli.Usagef("%s-psk-file needs --psk-file, the keys of clients", prefix)
	case len(names) > 0 && (f.TLSCert == "" || f.TLSCA == ""):
		return r, cli.Usagef("%s-name needs --tls-cert and --tls-ca", prefix)
	case file != "":
		r.Key = holds
	}
	r.Certificates = names
	return r, nil
}

// warn says which roles are less than they could be.
func (f *roleFlags) warn(n *netFlags, cfg *node.Config, at *node.Node) {
	id := slog.Uint64("replica", cfg.ID)
	if !cfg.Trust.ByRole() {
		cfg.Logger.Warn("members are known "+at.Trust(), id)
	}
	if n.MembersShared() {
		cfg.Logger.Warn("a key of --peer-psk-file is one of --psk-file, too: clients that have it may "+
			"speak for members; take it out of --peer-psk-file when all members have another one first", id)
	}
	if !cfg.Admins.ByRole() {
		cfg.Logger.Warn("admin commands are taken "+at.Admins(), id)
	}
}

// errNoAdmin is the refusal of an admin command.
var errNoAdmin = errors.New("this client is no admin: give as --psk-file a key of the replicas' " +
	"--admin-psk-file, or as --tls-cert a certificate with a name of their --admin-name")

// adminError names a refusal by a replica, for want of the admins' role.
func adminError(err error) error {
	var e *erpc.Error
	if errors.As(err, &e) && e.Code == erpc.CodePermissionDenied &&
		e.Reason == erpc.ReasonApplication {
		return fmt.Errorf("%w: %w", errNoAdmin, err)
	}
	return err
}
