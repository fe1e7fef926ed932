package erpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
)

// ConnectionState says what is known of a peer whose packets are secure.
type ConnectionState struct {
	Peer   transport.Addr
	Client bool // this side opened the association
	// TLS is the state of crypto/tls, nil without TLS. Resumed sessions have that of the first one.
	TLS *tls.ConnectionState
	// PSK says that the peer has a shared key.
	PSK bool
	// Key is the name of the shared key, security.PSKName of it, "" without one: where several are
	// taken it says whose key the peer has.
	Key string
	// UID is the user of a peer over shared memory, with Config.TrustLocal; -1 for all others. It is
	// this process's own: the kernel lets no other one but root connect.
	UID int
	// Cipher is that of packets, "" for a peer over shared memory.
	Cipher string
}

// Certificate returns the peer's certificate, which was verified; nil if it showed none.
func (c *ConnectionState) Certificate() *x509.Certificate {
	if c == nil || c.TLS == nil || len(c.TLS.PeerCertificates) == 0 {
		return nil
	}
	return c.TLS.PeerCertificates[0]
}

// DNSNames returns the host names in the peer's certificate.
func (c *ConnectionState) DNSNames() []string {
	if cert := c.Certificate(); cert != nil {
		return cert.DNSNames
	}
	return nil
}

// SPIFFE returns the peer's SPIFFE ID, the one URI of its certificate; nil if it has none.
func (c *ConnectionState) SPIFFE() *url.URL { return engine.SPIFFE(c.Certificate()) }

// keysOf returns what engines need for the security that a configuration asks for; nil for none.
func keysOf(c *Config) *engine.Keys {
	if c.TLS == nil && c.PSK == nil {
		return nil
	}
	k := engine.KeysConfig{
		TLS: c.TLS, PSK: c.PSK, KeyLog: c.KeyLog,
		HookTime: c.Timing.ConnectTimeout / 2, Inline: c.Simulation.Clock != nil,
		Logger: c.Logger,
	}
	if c.Keyring != nil {
		k.Latest = c.Keyring.latest.Load
	}
	if authorize := c.Authorize; authorize != nil {
		k.Authorize = func(ctx context.Context, peer *engine.Identity) error {
			return authorize(ctx, ConnectionState(*peer))
		}
	}
	return engine.NewKeys(k)
}

// checkSecurity says what is wrong with the fields of security, and puts in their defaults.
func (c *Config) checkSecurity() error {
	switch {
	case c.TLS != nil && c.PSK != nil:
		return &ConfigError{"PSK", "is set beside TLS: choose one"}
	case c.PSK != nil && len(c.PSK) == 0:
		return &ConfigError{"PSK", "has no key: give one, or leave it nil"}
	case c.TLS != nil && c.TLS.MaxVersion != 0 && c.TLS.MaxVersion < tls.VersionTLS13:
		return &ConfigError{"TLS", "has a MaxVersion below TLS 1.3: raise it, or leave it 0"}
	case c.TLS == nil && c.PSK == nil &&
		(c.TrustLocal || c.Authorize != nil || c.KeyLog != nil || c.Keyring != nil):
		return &ConfigError{"TLS", "is missing: TrustLocal, Authorize, KeyLog and Keyring " +
			"need TLS or PSK"}
	}
	if c.KeyUpdate < 0 {
		return negative("KeyUpdate", c.KeyUpdate)
	}
	if c.KeyUpdate == 0 {
		c.KeyUpdate = time.Hour
	}
	if err := security.CheckPSK(c.PSK); err != nil {
		return &ConfigError{"PSK", strings.TrimPrefix(err.Error(), security.ErrPSK.Error()+": ")}
	}
	return nil
}

// State returns what is known of the peer of a secure session; nil if its packets are plain, or
// before it is open. It stays as it is. It is for the session's thread, callbacks and handlers.
func (s *Session) State() *ConnectionState { return (*ConnectionState)(s.conn.Identity()) }

// State returns what is known of the client, nil if its packets are plain.
func (r ReqHandle) State() *ConnectionState { return r.s.State() }

// StateFrom returns what is known of the client of the request that a context is of, as HandleFrom
// finds it; nil if its packets are plain, or the context is of no request.
func StateFrom(ctx context.Context) *ConnectionState {
	h, ok := HandleFrom(ctx)
	if !ok {
		return nil
	}
	return h.State()
}

// Keyring replaces certificates, authorities and shared keys while endpoints run: see
// Config.Keyring. The zero value is ready, and endpoints of any number may share one.
type Keyring struct {
	latest atomic.Pointer[engine.Credentials]
}

// Set takes the place of Config.TLS and Config.PSK, one of which is given, for all handshakes that
// begin from now on. Sessions that are open go on with the keys that they have. Tickets from before
// are not taken any more, unless the configs share ticket keys or a ClientSessionCache; then
// crypto/tls looks at certificates and authorities again. KeyLogWriter stays that of Config.TLS,
// and so does ServerName if it is missing. After a *ConfigError all is as before. The arguments
// must not change later. Any goroutine may call it.
func (k *Keyring) Set(t *tls.Config, psk [][]byte) error {
	c := Config{TLS: t, PSK: psk, TrustLocal: true} // which needs either
	if err := c.checkSecurity(); err != nil {
		return err
	}
	k.latest.Store(&engine.Credentials{TLS: t, PSK: clonePSK(psk)})
	return nil
}

// clonePSK copies keys: the caller may wipe his, or use the memory for others.
func clonePSK(keys [][]byte) [][]byte {
	keys = slices.Clone(keys)
	for i, key := range keys {
		keys[i] = slices.Clone(key)
	}
	return keys
}
