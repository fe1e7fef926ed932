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

// Identity holds the facts that a handshake has proved of a peer; see erpc.ConnectionState.
type Identity struct {
	Peer   transport.Addr
	Client bool
	TLS    *tls.ConnectionState
	PSK    bool
	Key    string
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

// associate takes what a handshake has led to, once the peer is welcome. Theirs is the index that
// the peer has chosen.
func (g *Keys) associate(
	ctx context.Context, h *security.Handshake, peer transport.Addr, client bool, theirs uint32,
) (*made, error) {
	secrets := h.Secrets()
	keys, err := security.NewAssociation(secrets, client)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	keys.Address(theirs)
	t := h.TLS()
	state := &Identity{
		Peer: peer, Client: client, TLS: t, PSK: t == nil, Key: h.KeyName(), UID: -1,
		Cipher: secrets.AEAD.String(),
	}
	if err := g.authorize(ctx, state); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return &made{keys, state, state.quotaKey()}, nil
}

// log writes the secrets of an association. A log that is full ends no session.
func (g *Keys) log(nonce uint64, s *security.Secrets, client, server uint32) {
	_, _ = g.keyLog.Write(s.AppendKeyLog(nil, nonce, client, server))
}

// authorize says why a peer is not welcome.
func (g *Keys) authorize(ctx context.Context, peer *Identity) error {
	if g.cfg.Authorize == nil {
		return nil
	}
	return g.cfg.Authorize(ctx, peer)
}

// stepResult is what a step of a handshake has led to.
type stepResult struct {
	out  []byte
	made *made
	err  error
	lost bool // the step goes on, and has the handshake for itself
}

var (
	errHookLate  = errors.New("a question to Authorize, or of TLS to the application, took too long")
	errHookPanic = errors.New("the hook Authorize panicked")
	errHookBusy  = errors.New("too many questions to Authorize, or of TLS, are open")
)

// patience is how long a step may take until it counts as one that asks the application something.
const patience = 20 * time.Millisecond

// run runs a step of a share's handshake in a worker. A step that takes long waits for the
// application: for Authorize, a callback of crypto/tls, a key that is elsewhere. Then another
// worker goes on in its place. It has an end, after which it may go on by itself, and its result is
// lost. Nobody waits for it any more once gone is closed.
func (g *Keys) run(
	share transport.Addr, gone <-chan struct{}, hs *security.Handshake,
	work func(context.Context) stepResult,
) stepResult {
	if !g.steps.mayPause(share) {
		return stepResult{err: errHookBusy}
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.HookTime)
	defer cancel()
	var left atomic.Bool // run has, or the step has ended
	done := make(chan stepResult, 1)
	go func() {
		r := stepResult{err: errHookPanic} // also after runtime.Goexit
		defer func() {
			if p := recover(); p != nil {
				g.cfg.Logger.Error("Authorize panicked", "panic", p, "stack", string(debug.Stack()))
			}
			if done <- r; left.Swap(true) {
				g.steps.hookEnds(share)
				if hs != nil {
					hs.Close()
				}
			}
		}()
		r = work(ctx)
	}()
	quick := time.NewTimer(patience)
	defer quick.Stop()
	select {
	case r := <-done:
		return r
	case <-quick.C:
	}
	g.steps.pause(share)
	defer g.steps.resume()
	select {
	case r := <-done:
		g.steps.hookEnds(share)
		return r
	case <-ctx.Done():
	case <-gone:
	}
	if left.Swap(true) { // it has ended just now
		g.steps.hookEnds(share)
		return <-done
	}
	return stepResult{err: errHookLate, lost: true}
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
// gone, which is nil for handshakes of this side's own, is closed meanwhile. If the loop has ended
// the handshake ends too. It reports false if there is no room.
func (e *Engine) step(
	share transport.Addr, gone <-chan struct{}, hs *security.Handshake,
	work func(context.Context) stepResult, done func(stepResult),
) bool {
	if e.security.inline {
		done(work(context.Background()))
		return true
	}
	k := e.security.keys
	rests := gone != nil && e.recordLayer.usage.look(e.in.Now, e.stats.SessionsOpened)
	ok := k.steps.submit(share, func() {
		var r stepResult
		select {
		case <-gone:
		default:
			start := monotime.Now()
			if r = k.run(share, gone, hs, work); rests {
				defer k.sleep(rest(monotime.Now().Sub(start)))
			}
		}
		if !e.port.Post(func() { done(r) }) && hs != nil && !r.lost {
			hs.Close()
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
	k.server = security.ServerConfig(c.TLS)
	k.client = security.ClientConfig(c.TLS, name)
	if g.tlsLog != nil {
		k.server.KeyLogWriter, k.client.KeyLogWriter = g.tlsLog, g.tlsLog
	}
	if k.client.ClientSessionCache == nil {
		k.client.ClientSessionCache = tls.NewLRUClientSessionCache(ticketCache)
	}
	return k
}

const (
	// maxSteps bounds the steps of handshakes that wait for a worker, of all loops together.
	maxSteps = 8192
	// maxHooks bounds the questions to the application that are open. One share has a quarter.
	maxHooks = 4096
	// quotaDivisor is which part one share has of what is bounded for all.
	quotaDivisor = 4
)

// steps runs steps of handshakes in a few goroutines, which are there while there is work. The
// shares have their turns: each turn is a step, so a share that has many waits for its own.
//
// A step that asks the application something may wait for long. Another worker goes on in its place
// meanwhile (pause, resume), so that only the share waits whose question it is.
type steps struct {
	mu      sync.Mutex
	max     int // workers that compute
	running int // of them; one that resumes may be beyond max for a step
	waiting int // steps
	hooks   int // questions that are open
	lines   map[transport.Addr]*stepLine
	turns   []*stepLine // those with steps that wait, the next one first
}

// stepLine is the steps of one share.
type stepLine struct {
	share transport.Addr
	steps []func()
	hooks int
}

// submit runs fn of some share soon. It reports false if too much waits.
func (s *steps) submit(share transport.Addr, fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.line(share)
	if s.waiting >= maxSteps || len(l.steps) >= maxSteps/quotaDivisor {
		s.tidy(l)
		return false
	}
	if l.steps = append(l.steps, fn); len(l.steps) == 1 {
		s.turns = append(s.turns, l)
	}
	s.waiting++
	s.bring()
	return true
}

// line returns the line of a share.
func (s *steps) line(share transport.Addr) *stepLine {
	l := s.lines[share]
	if l == nil {
		if s.lines == nil {
			s.lines = make(map[transport.Addr]*stepLine)
		}
		l = &stepLine{share: share}
		s.lines[share] = l
	}
	return l
}

// tidy forgets a line that has nothing.
func (s *steps) tidy(l *stepLine) {
	if len(l.steps) == 0 && l.hooks == 0 {
		delete(s.lines, l.share)
	}
}

// bring makes a worker come if there is a step for it.
func (s *steps) bring() {
	if s.waiting > 0 && s.running < s.max {
		s.running++
		go s.work()
	}
}

// waits returns how many steps wait.
func (s *steps) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *steps) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waiting > 0 && s.running <= s.max {
		fn := s.next()
		s.mu.Unlock()
		fn()
		s.mu.Lock()
	}
	s.running--
	s.bring() // one that resumed may have been in its place
}

// next takes the first step of the share whose turn it is.
func (s *steps) next() func() {
	l := s.turns[0]
	s.turns = s.turns[1:]
	fn := l.steps[0]
	l.steps[0] = nil
	if l.steps = l.steps[1:]; len(l.steps) > 0 {
		s.turns = append(s.turns, l)
	}
	s.waiting--
	s.tidy(l)
	return fn
}

// mayPause reports whether a share may have one more question open.
func (s *steps) mayPause(share transport.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[share]
	return s.hooks < maxHooks && (l == nil || l.hooks < maxHooks/quotaDivisor)
}

// pause notes that a step asks the application something, and lets another worker come.
func (s *steps) pause(share transport.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks++
	s.line(share).hooks++
	s.running--
	s.bring()
}

// resume notes that a step goes on that has paused.
func (s *steps) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// hookEnds notes that the application has answered.
func (s *steps) hookEnds(share transport.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks--
	l := s.line(share)
	l.hooks--
	s.tidy(l)
}

const (
	// restTimes is for how many times the length of a step a worker rests behind it, where sessions
	// are in use: handshakes have a sixth of its processor then.
	restTimes = 5
	// maxRest bounds that, since a step may have waited for the application or for a processor.
	maxRest = 2 * time.Millisecond
	// Sessions are in use where a datagram comes every usedEvery, beside those that come with a new
	// session anyway. Looks are lookEvery apart, at least.
	usedEvery  = 200 * time.Microsecond
	perOpening = 4
	lookEvery  = time.Millisecond
)

// usage tells whether the sessions of an endpoint are in use, beside handshakes.
type usage struct {
	opened int64 // sealed datagrams
	before int64 // of them at the last look, without those of new sessions
	at     monotime.Time
	used   bool
}

// look reports whether sessions have been in use since the last look. So many were opened so far.
func (u *usage) look(now monotime.Time, sessions uint64) bool {
	if d := now.Sub(u.at); d >= lookEvery {
		n := u.opened - perOpening*int64(sessions)
		u.used = n-u.before >= int64(d/usedEvery)
		u.before, u.at = n, now
	}
	return u.used
}

// rest returns how long a worker rests behind a step that took d.
func rest(d time.Duration) time.Duration { return min(restTimes*d, maxRest) }
