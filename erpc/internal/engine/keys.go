package engine

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
)

// Identity is what a handshake has proved of a peer; see erpc.ConnectionState.
type Identity struct {
	Peer   transport.Addr
	Client bool
	TLS    *tls.ConnectionState
	PSK    bool
	UID    int
	Cipher string
}

// certificate returns the peer's certificate, nil if it showed none.
func (c *Identity) certificate() *x509.Certificate {
	if c.TLS == nil || len(c.TLS.PeerCertificates) == 0 {
		return nil
	}
	return c.TLS.PeerCertificates[0]
}

// SPIFFE returns the one URI of a certificate if it is a SPIFFE ID, else nil.
func SPIFFE(cert *x509.Certificate) *url.URL {
	if cert == nil || len(cert.URIs) != 1 || cert.URIs[0].Scheme != "spiffe" {
		return nil
	}
	return cert.URIs[0]
}

// quotaKey returns what stands for the peer's identity where quotas count, zero if it has none: its
// SPIFFE ID, else the subject of its certificate and who issued it.
func (c *Identity) quotaKey() (a transport.Addr) {
	cert := c.certificate()
	if cert == nil {
		return a
	}
	text := append([]byte("subject "), cert.RawSubject...)
	for _, name := range cert.DNSNames {
		text = append(append(text, 0), name...)
	}
	text = append(append(text, 0), cert.RawIssuer...)
	if id := SPIFFE(cert); id != nil {
		text = []byte("id " + id.String())
	}
	sum := sha256.Sum256(text)
	copy(a.IP[:], sum[:])
	a.Scope = 1<<32 - 1 // no interface has that number
	return a
}

// KeysConfig is what Keys are made with: TLS or PSK is given.
type KeysConfig struct {
	TLS    *tls.Config
	PSK    [][]byte
	KeyLog io.Writer // default: TLS.KeyLogWriter
	// Latest returns what takes the place of TLS and PSK for handshakes that begin now, nil if nothing
	// does. It may be nil.
	Latest func() *Credentials
	// Authorize says why a peer is not welcome. It is called by several goroutines at a time. It may
	// be nil.
	Authorize func(context.Context, *Identity) error
	// HookTime is how long Authorize, and callbacks of crypto/tls, may take.
	HookTime time.Duration
	// Inline has hooks run in the loop.
	Inline bool
	Logger *slog.Logger
}

// Keys holds the state of handshakes that several engines share.
type Keys struct {
	cfg    KeysConfig
	first  Credentials // those of cfg
	steps  steps
	sleep  func(time.Duration)
	keyLog io.Writer // for any goroutine; nil: none
	tlsLog io.Writer // keyLog, if crypto/tls writes there too

	mu   sync.Mutex
	last *keyset // which keys returned
}

// logWriter is a key log that several goroutines write to, a line at a time.
type logWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *logWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// ticketCache is how many servers a client can resume sessions with.
const ticketCache = 256

// NewKeys returns what engines need that demand security.
func NewKeys(cfg KeysConfig) *Keys {
	g := &Keys{cfg: cfg, first: Credentials{cfg.TLS, cfg.PSK}, sleep: time.Sleep}
	g.steps.max = max(1, runtime.GOMAXPROCS(0)/2)
	if cfg.KeyLog != nil {
		g.keyLog = &logWriter{w: cfg.KeyLog}
	}
	if t := cfg.TLS; t != nil && t.KeyLogWriter != nil && cfg.KeyLog == nil {
		g.tlsLog = &logWriter{w: t.KeyLogWriter}
		g.keyLog = g.tlsLog
	}
	return g
}

// serves says why an endpoint cannot take handshakes, "" if it can.
func (g *Keys) serves() string {
	t := g.keys().server
	if t == nil || len(t.Certificates) > 0 || t.GetCertificate != nil || t.GetConfigForClient != nil {
		return ""
	}
	return "this side has no certificate"
}

// handshake makes one of either side. Rng is nil, or that of a simulation.
func (g *Keys) handshake(
	name string, client bool, rng *rand.Rand, o security.Opening,
) *security.Handshake {
	k := g.keys()
	switch {
	case k.server == nil && rng != nil:
		return security.NewPSK(k.psk, &randomBytes{rng}, client, o)
	case k.server == nil:
		return security.NewPSK(k.psk, nil, client, o)
	case client:
		cfg := k.client
		if cfg.ServerName == "" {
			cfg = cfg.Clone()
			cfg.ServerName = name
		}
		return security.NewTLS(cfg, true, o)
	}
	return security.NewTLS(k.server, false, o)
}

// randomBytes reads from a generator.
type randomBytes struct{ rng *rand.Rand }

func (r *randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return len(b), nil
}

// made holds the results of a handshake.
type made struct {
	keys     *security.Association
	state    *Identity
	quotaKey transport.Addr // what stands for the peer's identity where quotas count
}

// associate takes what a handshake has led to, once the peer is welcome, who counts for a share.
// Theirs is the index that the peer has chosen.
func (g *Keys) associate(
	share transport.Addr, h *security.Handshake, peer transport.Addr, client bool, theirs uint32,
) (*made, error) {
	secrets := h.Secrets()
	keys, err := security.NewAssociation(secrets, client)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	keys.Address(theirs)
	t := h.TLS()
	state := &Identity{
		Peer: peer, Client: client, TLS: t, PSK: t == nil, UID: -1, Cipher: secrets.AEAD.String(),
	}
	if err := g.authorize(share, state); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return &made{keys, state, state.quotaKey()}, nil
}

// log writes the secrets of an association. A log that is full ends no session.
func (g *Keys) log(nonce uint64, s *security.Secrets, client, server uint32) {
	_, _ = g.keyLog.Write(s.AppendKeyLog(nil, nonce, client, server))
}

// authorize says why a peer is not welcome, who counts for a share.
func (g *Keys) authorize(share transport.Addr, peer *Identity) error {
	f := g.cfg.Authorize
	if f == nil {
		return nil
	}
	if g.cfg.Inline {
		return f(context.Background(), peer)
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.HookTime)
	defer cancel()
	var verdict error
	if err := g.hook(ctx, share, func() { verdict = f(ctx, peer) }); err != nil {
		return fmt.Errorf("Authorize %w", err)
	}
	return verdict
}

var (
	errHookLate  = errors.New("took too long")
	errHookPanic = errors.New("panicked")
	errHookBusy  = errors.New("was not asked: too many such questions are open")
)

// hook runs what the application was asked for, which may wait, in a goroutine of its own. Other
// steps go on meanwhile. It returns when ctx ends, with an error; fn may go on then, and must write
// nothing that the caller reads.
func (g *Keys) hook(ctx context.Context, share transport.Addr, fn func()) error {
	if !g.steps.pause(share) {
		return errHookBusy
	}
	done := make(chan error, 1)
	go func() {
		err := errHookPanic // also after runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				g.cfg.Logger.Error("a hook panicked", "panic", p, "stack", string(debug.Stack()))
			}
			g.steps.hookEnds(share)
			done <- err
		}()
		fn()
		err = nil
	}()
	defer g.steps.resume()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errHookLate
	}
}

// psk reports whether a handshake is by a shared key, or if it is nil, one that begins now.
func (g *Keys) psk(h *security.Handshake) bool {
	if h != nil {
		return h.PSK()
	}
	return g.keys().server == nil
}

// localIdentity is that of a peer over shared memory, which the kernel vouches for.
func localIdentity(peer transport.Addr, client bool) *Identity {
	return &Identity{Peer: peer, Client: client, UID: os.Getuid()}
}

// endpointSecurity holds the further state of an endpoint that demands security.
type endpointSecurity struct {
	keys     *Keys
	rng      *rand.Rand // of a simulation, else nil
	inline   bool       // steps of handshakes run in the loop: time is made up
	halfOpen halfOpen
	dials    map[uint64]*Conn    // by the nonce of their attempt to connect
	leaders  map[leaderKey]*Conn // those whose handshake others wait for
}

// demandSecurity makes the endpoint demand security.
func (e *Engine) demandSecurity(g *Keys) {
	e.sealing = true
	e.recordLayer.overhead = security.Overhead
	e.security = &endpointSecurity{
		keys: g, inline: e.cfg.Inline, halfOpen: newHalfOpen(e.cfg.Book.Budget()),
		leaders: make(map[leaderKey]*Conn), dials: make(map[uint64]*Conn),
	}
	if e.cfg.Seeded {
		e.security.rng = e.rng
	}
}

// step runs work of a share's handshake in a worker, and then done in the loop. Work is left out if
// gone, which a client has not, is set meanwhile. If the loop has ended the handshake ends too. It
// reports false if there is no room.
//
// Where sessions are in use a worker rests behind a step that somebody else has asked for, so that
// those who begin handshakes cannot have the processors of those who have sessions.
func (e *Engine) step(
	share transport.Addr, gone *atomic.Bool, hs *security.Handshake, work, done func(),
) bool {
	if e.security.inline {
		work()
		done()
		return true
	}
	k := e.security.keys
	rests := gone != nil && e.recordLayer.usage.look(e.in.Now, e.stats.SessionsOpened)
	ok := k.steps.submit(share, func() {
		start := monotime.Now()
		worked := gone == nil || !gone.Load()
		if worked {
			work()
		}
		took := monotime.Now().Sub(start)
		if !e.port.Post(done) && hs != nil {
			hs.Close()
		}
		if worked && rests {
			k.sleep(rest(took))
		}
	})
	if ok {
		e.Handed++ // the worker goes on here, and no other processor is woken for it
	}
	return ok
}

// Credentials hold the TLS or PSK that handshakes are made with. They never change.
type Credentials struct {
	TLS *tls.Config
	PSK [][]byte
}

// keyset holds credentials as crypto/tls wants them, for handshakes.
type keyset struct {
	of             *Credentials
	psk            [][]byte
	server, client *tls.Config // nil with shared keys
}

// now returns what a handshake that begins now is made with.
func (g *Keys) now() *Credentials {
	if g.cfg.Latest != nil {
		if c := g.cfg.Latest(); c != nil {
			return c
		}
	}
	return &g.first
}

// keys returns the same as crypto/tls wants it. Tickets last as long as one.
func (g *Keys) keys() *keyset {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil || g.last.of != now {
		g.last = g.prepare(now)
	}
	return g.last
}

func (g *Keys) prepare(c *Credentials) *keyset {
	k := &keyset{of: c, psk: c.PSK}
	if c.TLS == nil {
		return k
	}
	name := ""
	if g.first.TLS != nil {
		name = g.first.TLS.ServerName
	}
	k.server = g.asking(security.ServerConfig(c.TLS))
	k.client = g.asking(security.ClientConfig(c.TLS, name))
	if g.tlsLog != nil {
		k.server.KeyLogWriter, k.client.KeyLogWriter = g.tlsLog, g.tlsLog
	}
	if k.client.ClientSessionCache == nil {
		k.client.ClientSessionCache = tls.NewLRUClientSessionCache(ticketCache)
	}
	return k
}

// asking returns c, whose callbacks ask the application as hooks now.
func (g *Keys) asking(c *tls.Config) *tls.Config {
	if f := c.GetCertificate; f != nil {
		c.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return ask(g, "GetCertificate", func() (*tls.Certificate, error) { return f(h) })
		}
	}
	if f := c.GetClientCertificate; f != nil {
		c.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return ask(g, "GetClientCertificate", func() (*tls.Certificate, error) { return f(r) })
		}
	}
	if f := c.GetConfigForClient; f != nil {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			own, err := ask(g, "GetConfigForClient", func() (*tls.Config, error) { return f(h) })
			if own != nil {
				own = g.asking(own)
			}
			return own, err
		}
	}
	if f := c.VerifyPeerCertificate; f != nil {
		c.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			_, err := ask(g, "VerifyPeerCertificate", func() (any, error) { return nil, f(raw, chains) })
			return err
		}
	}
	if f := c.VerifyConnection; f != nil {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := ask(g, "VerifyConnection", func() (any, error) { return nil, f(s) })
			return err
		}
	}
	return c
}

// ask calls a callback of crypto/tls as a hook.
func ask[T any](g *Keys, name string, f func() (T, error)) (T, error) {
	if g.cfg.Inline {
		return f()
	}
	var answer, none T
	var verdict error
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.HookTime)
	defer cancel()
	if err := g.hook(ctx, transport.Addr{}, func() { answer, verdict = f() }); err != nil {
		return none, fmt.Errorf("%s %w", name, err)
	}
	return answer, verdict
}
