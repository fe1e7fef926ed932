package erpc

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
func (c *ConnectionState) SPIFFE() *url.URL {
	cert := c.Certificate()
	if cert == nil || len(cert.URIs) != 1 || cert.URIs[0].Scheme != "spiffe" {
		return nil
	}
	return cert.URIs[0]
}

// quotaKey returns what stands for the peer's identity where quotas count, zero if it has none: its
// SPIFFE ID, else the subject of its certificate and who issued it.
func (c *ConnectionState) quotaKey() (a transport.Addr) {
	cert := c.Certificate()
	if cert == nil {
		return a
	}
	text := append([]byte("subject "), cert.RawSubject...)
	for _, name := range cert.DNSNames {
		text = append(append(text, 0), name...)
	}
	text = append(append(text, 0), cert.RawIssuer...)
	if id := c.SPIFFE(); id != nil {
		text = []byte("id " + id.String())
	}
	sum := sha256.Sum256(text)
	copy(a.IP[:], sum[:])
	a.Scope = 1<<32 - 1 // no interface has that number
	return a
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

// guard holds the state that the endpoints of a Nexus share if they demand security.
type guard struct {
	cfg    *Config
	first  credentials // those of cfg
	queue  handshakeQueue
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

func newGuard(cfg *Config) *guard {
	if cfg.TLS == nil && cfg.PSK == nil {
		return nil
	}
	g := &guard{cfg: cfg, first: credentials{cfg.TLS, cfg.PSK}}
	g.queue.max = max(1, runtime.GOMAXPROCS(0)/2)
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
func (g *guard) serves() string {
	t := g.keys().server
	if t == nil || len(t.Certificates) > 0 || t.GetCertificate != nil || t.GetConfigForClient != nil {
		return ""
	}
	return "this side has no certificate"
}

// handshake makes one of either side. Rng is nil, or that of a simulation.
func (g *guard) handshake(
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
	state    *ConnectionState
	quotaKey transport.Addr // what stands for the peer's identity where quotas count
}

// associate takes what a handshake has led to, once the peer is welcome. Theirs is the index that
// the peer has chosen.
func (g *guard) associate(
	h *security.Handshake, peer transport.Addr, client bool, theirs uint32,
) (*made, error) {
	secrets := h.Secrets()
	keys, err := security.NewAssociation(secrets, client)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	keys.Address(theirs)
	t := h.TLS()
	state := &ConnectionState{
		Peer: peer, Client: client, TLS: t, PSK: t == nil, UID: -1, Cipher: secrets.AEAD.String(),
	}
	if f := g.cfg.Authorize; f != nil {
		if err := f(*state); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDenied, err)
		}
	}
	return &made{keys, state, state.quotaKey()}, nil
}

// log writes the secrets of an association. A log that is full ends no session.
func (g *guard) log(nonce uint64, s *security.Secrets, client, server uint32) {
	_, _ = g.keyLog.Write(s.AppendKeyLog(nil, nonce, client, server))
}

// localState is that of a peer over shared memory, which the kernel vouches for.
func localState(peer transport.Addr, client bool) ConnectionState {
	return ConnectionState{Peer: peer, Client: client, UID: os.Getuid()}
}

// maxHandshakes bounds the steps of handshakes that wait for a worker, of all loops together. One
// quota has a quarter of them at most, with however many loops it makes handshakes.
const maxHandshakes = maxPending

// handshakeQueue runs steps of handshakes in a few goroutines, which are there while there is work.
type handshakeQueue struct {
	mu      sync.Mutex
	waiting []func()
	of      map[transport.Addr]int // how many of them each quota has
	running int
	max     int // goroutines
}

// submit runs fn of some quota soon. It reports false if too much waits.
func (q *handshakeQueue) submit(quotaKey transport.Addr, fn func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxHandshakes || q.of[quotaKey] >= maxHandshakes/quotaDivisor {
		return false
	}
	if q.of == nil {
		q.of = make(map[transport.Addr]int)
	}
	q.of[quotaKey]++
	q.waiting = append(q.waiting, func() { q.begins(quotaKey); fn() })
	if q.running < q.max {
		q.running++
		go q.work()
	}
	return true
}

// begins notes that a step waits no more.
func (q *handshakeQueue) begins(quotaKey transport.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[quotaKey]--; q.of[quotaKey] == 0 {
		delete(q.of, quotaKey)
	}
}

// waits returns how many steps wait.
func (q *handshakeQueue) waits() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *handshakeQueue) work() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running--
			q.mu.Unlock()
			return
		}
		fn := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		fn()
	}
}

// endpointSecurity holds the further state of an endpoint that demands security.
type endpointSecurity struct {
	guard    *guard
	rng      *rand.Rand // of a simulation, else nil
	inline   bool       // steps of handshakes run in the loop: time is made up
	pending  map[connKey]*pendingHandshake
	order    []*pendingHandshake // all of them, as they expire
	all      halfOpen
	halfOpen map[transport.Addr]halfOpen // by quota
	dials    map[uint64]*Session         // by the nonce of their attempt to connect
	leaders  map[leaderKey]*Session      // those whose handshake others wait for
}

// demandSecurity makes the endpoint demand security.
func (e *engine) demandSecurity(g *guard) {
	e.sealing = true
	e.recordLayer.overhead = security.Overhead
	e.security = &endpointSecurity{
		guard: g, pending: make(map[connKey]*pendingHandshake),
		halfOpen: make(map[transport.Addr]halfOpen),
		leaders:  make(map[leaderKey]*Session), dials: make(map[uint64]*Session),
	}
	if e.cfg.Simulation.Clock != nil {
		e.security.inline = true
	}
	if e.cfg.Simulation.Seed != 0 {
		e.security.rng = e.rng
	}
}

// step runs work of a handshake in a worker, and then done in the loop. QuotaKey is the peer's. If
// the loop has ended meanwhile the handshake ends too. It reports false if there is no room.
func (e *engine) step(quotaKey transport.Addr, hs *security.Handshake, work, done func()) bool {
	if e.security.inline {
		work()
		done()
		return true
	}
	ok := e.security.guard.queue.submit(quotaKey, func() {
		work()
		if e.owner.Post(func(*Rpc) { done(); e.settle() }) != nil {
			hs.Close()
		}
	})
	if ok {
		e.handed++ // the worker goes on here, and no other processor is woken for it
	}
	return ok
}

// close ends the handshakes of clients, when the endpoint ends. Workers end those that they have.
func (sec *endpointSecurity) close() {
	for _, n := range sec.pending {
		sec.conclude(n)
	}
}

// State returns what is known of the peer of a secure session; nil if its packets are plain, or
// before it is open. It stays as it is. It is for the session's thread, callbacks and handlers.
func (s *Session) State() *ConnectionState {
	return s.identity
}

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
