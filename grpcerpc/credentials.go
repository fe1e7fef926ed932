package grpcerpc

import (
	"crypto/tls"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/erpc"
)

// tlsCreds are the credentials of NewTLS.
type tlsCreds struct {
	credentials.TransportCredentials // for connections over TCP
	cfg                              *tls.Config
}

// NewTLS makes credentials from a config, as [credentials.NewTLS] does. These can secure erpc's
// sessions too: with them calls go over erpc, encrypted, and over TCP with TLS where WithTCP or
// ServeTCP say so. It is for WithTransportCredentials and Creds, and as good for those of package
// grpc. See erpc.Config.TLS for what of the config counts; a client checks the host in the
// ClientConn's authority, or in the address of each server if the target is a list of them. As
// there, ClientCAs alone make a server demand certificates, over TCP too, where credentials.NewTLS
// would not ask for any.
//
// Credentials of credentials.NewTLS do not say what they were made of, so sessions cannot have
// them. Write grpcerpc.NewTLS(cfg) in place of credentials.NewTLS(cfg). Credentials of other kinds
// can say it by a method SessionTLS() *tls.Config: then they are as good for sessions.
func NewTLS(cfg *tls.Config) credentials.TransportCredentials {
	c := demanding(cfg)
	return &tlsCreds{credentials.NewTLS(c), c}
}

// sealing returns credentials as such of NewTLS if they say what they are made of, others as they
// are.
func sealing(c credentials.TransportCredentials) credentials.TransportCredentials {
	if t, ok := c.(interface{ SessionTLS() *tls.Config }); ok {
		return &tlsCreds{c, demanding(t.SessionTLS())}
	}
	return c
}

// demanding returns a copy of a config with which a server demands certificates over TCP where it
// does over erpc.
func demanding(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return new(tls.Config)
	}
	c := cfg.Clone()
	if c.ClientCAs != nil && c.ClientAuth == tls.NoClientCert {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if each := c.GetConfigForClient; each != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := each(hello)
			if own == nil || err != nil {
				return nil, err
			}
			return demanding(own), nil
		}
	}
	return c
}

// Clone returns a copy.
func (c *tlsCreds) Clone() credentials.TransportCredentials {
	return &tlsCreds{c.TransportCredentials.Clone(), c.cfg.Clone()}
}

// Creds makes a server's sessions secure. It takes credentials of NewTLS, of package insecure, and
// of package local, by which clients of other machines are refused; with others NewServer panics,
// since it could not make sessions by them.
func Creds(c credentials.TransportCredentials) ServerOption {
	return func(o *serverOptions) { o.creds = sealing(c) }
}

// secured returns the configuration of a server's loops.
func (o *serverOptions) secured() erpc.Config {
	cfg := withDefaults(o.config)
	if t, ok := o.creds.(*tlsCreds); ok {
		cfg.TLS = t.cfg
	} else if isSecure(o.creds) {
		panic(fmt.Sprintf("grpcerpc: Creds: credentials %q are not of grpcerpc.NewTLS; "+
			"write grpcerpc.NewTLS(cfg) with their *tls.Config", o.creds.Info().SecurityProtocol))
	}
	return cfg
}

// secured returns the configuration of a ClientConn's loop.
func (cc *ClientConn) secured() erpc.Config {
	cfg := withDefaults(cc.opts.config)
	if t, ok := cc.opts.creds.(*tlsCreds); ok {
		cfg.TLS = cc.named(t)
	}
	return cfg
}

// named returns the config by which sessions know the ClientConn's servers.
func (cc *ClientConn) named(t *tlsCreds) *tls.Config {
	if t.cfg.ServerName != "" || cc.listed() {
		return t.cfg
	}
	cfg := t.cfg.Clone()
	cfg.ServerName = cc.authority
	if host, _, err := net.SplitHostPort(cc.authority); err == nil {
		cfg.ServerName = host
	}
	return cfg
}

// listed reports whether the target is a list of addresses. Each server is known by its own host
// then, if WithAuthority gives no name.
func (cc *ClientConn) listed() bool {
	_, ok := cc.builder.(static)
	return ok && cc.opts.authority == ""
}

// seals reports whether a ClientConn's sessions are encrypted, and the server is known by a name.
func (o *dialOptions) seals() bool {
	_, ok := o.creds.(*tlsCreds)
	return ok || o.config.TLS != nil || o.loops != nil && o.loops.config.TLS != nil
}

// private says that sealed sessions have privacy and integrity.
var private = credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}

// identify adds what is known of the other side of a session to a peer.
func identify(p *peer.Peer, s *erpc.ConnectionState) {
	if s == nil || s.TLS == nil {
		return
	}
	p.AuthInfo = credentials.TLSInfo{
		State: *s.TLS, SPIFFEID: s.SPIFFE(), CommonAuthInfo: private,
	}
}

// credsOverTCP returns the transport credentials for connections over TCP: those given, else such
// as are like the security of the sessions, so that nothing goes from encrypted to plain.
func credsOverTCP(
	given credentials.TransportCredentials, sessions *erpc.Config,
) credentials.TransportCredentials {
	switch {
	case given != nil:
		return given
	case sessions.TLS != nil:
		return NewTLS(sessions.TLS)
	case sessions.PSK != nil: // TLS has no such keys
		return NewTLS(nil)
	}
	return insecure.NewCredentials()
}
