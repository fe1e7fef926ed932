package erpc

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/security"
)

// Keyring replaces certificates, authorities and shared keys while endpoints run: see
// Config.Keyring. The zero value is ready, and endpoints of any number may share one.
type Keyring struct{ latest atomic.Pointer[credentials] }

// credentials hold the TLS or PSK of a Config or a Keyring. They never change.
type credentials struct {
	tls *tls.Config
	psk [][]byte
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
	k.latest.Store(&credentials{t, psk})
	return nil
}

// keyset holds credentials as crypto/tls wants them, for handshakes.
type keyset struct {
	of             *credentials
	psk            [][]byte
	server, client *tls.Config // nil with shared keys
}

// now returns what a handshake that begins now is made with.
func (g *guard) now() *credentials {
	if r := g.cfg.Keyring; r != nil {
		if c := r.latest.Load(); c != nil {
			return c
		}
	}
	return &g.first
}

// keys returns the same as crypto/tls wants it. Tickets last as long as one.
func (g *guard) keys() *keyset {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil || g.last.of != now {
		g.last = g.prepare(now)
	}
	return g.last
}

func (g *guard) prepare(c *credentials) *keyset {
	k := &keyset{of: c, psk: c.psk}
	if c.tls == nil {
		return k
	}
	name := ""
	if g.first.tls != nil {
		name = g.first.tls.ServerName
	}
	k.server, k.client = security.ServerConfig(c.tls), security.ClientConfig(c.tls, name)
	if g.tlsLog != nil {
		k.server.KeyLogWriter, k.client.KeyLogWriter = g.tlsLog, g.tlsLog
	}
	if k.client.ClientSessionCache == nil {
		k.client.ClientSessionCache = tls.NewLRUClientSessionCache(ticketCache)
	}
	return k
}
