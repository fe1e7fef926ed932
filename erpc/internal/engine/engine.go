package engine

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Config configures an Engine. The caller has checked it and filled in the defaults.
type Config struct {
	Slots, Credits, Waiting           int // offered for each session; see wire.Offer
	LeastWindow                       int // packets
	MaxMessage, MaxSessions, MaxQueue int
	MTU                               int // the largest packet on any path, bytes
	RxRing                            int // packets that can wait at the transport
	Burst                             int // packets of a pass
	TxCopies                          bool
	Checksum, NoBundles               bool
	Timing                            session.Timing
	Shares                            Shares
	DialOnly                          bool // no peer opens sessions here
	TrustLocal                        bool
	KeyUpdate                         time.Duration
	Oldest, Newest                    uint8 // protocol versions that are spoken
	Logger                            *slog.Logger

	// NoBatchedTime: the clock is read for each packet.
	NoBatchedTime bool
	// Inline has handshakes run in the loop, for time that is made up; Seeded makes them repeatable.
	Inline, Seeded bool

	Pool *msgbuf.Pool
	Rand *rand.Rand
	Book *Book // of the memory that peers use
	Keys *Keys // nil if nothing is sealed
	Now  monotime.Time
	// Refusals says per request type why requests of it are refused, wire.CodeOK if they are not. The
	// owner may change it at any time.
	Refusals *[256]wire.Code
	// Pacing returns the congestion control of client sessions on a path, nil for none. Paths of the
	// same HostDelay and Local share it.
	Pacing func(path *transport.Path) *session.Pacing
	// NewConn makes an end of a session, of a client or of a server, with its half: see InitClient
	// and InitServer.
	NewConn func(client bool) *Conn
}

// Port is all that an Engine asks of the loop around it. None of it is called for a packet of the
// common case.
type Port interface {
	// Drain sends the TX batch and returns when the transport refers to no buffer.
	Drain()
	// ReadClock returns the time.
	ReadClock() monotime.Time
	// PathTo describes the way to a peer.
	PathTo(to transport.Addr) transport.Path
	// IsPrivate returns the Private of the way to a peer, at once.
	IsPrivate(from transport.Addr) bool
	// Renew has packets to a peer leave by another port of this side, if it has one.
	Renew(to transport.Addr)
	// Hints returns what the network says about packets sent earlier, until the next call.
	Hints() []transport.Hint
	// Post runs fn in the loop, and settles what it leaves. It is called by other goroutines. It
	// reports false if the loop has ended.
	Post(fn func()) bool
	// QuotaOpened and QuotaClosed follow the life of the quota of an address.
	QuotaOpened(q *Quota)
	QuotaClosed(q *Quota)
}

// Peers are the loops of an endpoint's address, by number from 1 on. One may have ended.
type Peers interface {
	// Loops returns how many there were.
	Loops() int
	// Epoch returns the incarnation of a loop's engine. It reports false if the loop does not run.
	Epoch(loop uint8) (epoch uint64, runs bool)
	// Place returns the loop for a new session: that which is asked for, if it runs, else one that
	// follows from a number.
	Place(number uint64, asked uint8) uint8
	// HandOver gives a copy of a packet to another loop. It reports whether there is such a loop,
	// and whether that had room.
	HandOver(loop uint8, p *transport.RxPacket) (runs, took bool)
}

// Stats counts what an engine does.
type Stats struct {
	RxBundled                                      uint64
	SessionsOpened, SessionsEnded, SessionsRefused uint64
	SessionsMoved, KeyUpdates, SessionsOverShare   uint64

	DropMalformed, DropNoSession, DropToken, DropConnects uint64
	DropSealed, DropBundle, DropRole                      uint64
	HandshakesEvicted                                     uint64

	HandedOver, DropHandover, DropNoLoop uint64
}

// Engine is an endpoint without I/O. Events come in by methods: a packet, a tick, a session to dial
// or to end. What follows is in Out: packets to send, and outcomes, which the owner takes one after
// the other and acts on. An engine calls nothing of the application.
//
// Each part owns its state and has a file: sessions by number, remote endpoints, quotas of
// addresses, sessions that open or close, timers, paths.
type Engine struct {
	port  Port
	cfg   *Config
	pool  *msgbuf.Pool
	rng   *rand.Rand
	peers Peers // the loops of the address; nil if there is one

	in   session.Arrival // of the packet at hand; in.Now is the time of the pass
	hand *Conn           // its session
	Out  *session.Out

	sealing  bool              // packets are sealed
	security *endpointSecurity // nil if they are not

	table      connTable
	quotas     Quotas
	assocs     assocTable
	handshakes handshakes
	timers     timers
	paths      paths
	ahead      []*Conn // of Prefetch

	// Handed counts work for other goroutines since they were last let run: steps of handshakes, and
	// what the owner adds. The owner resets it.
	Handed int

	recordLayer recordLayer
	notices     []*Conn // clients that have not acknowledged that this side shuts down

	refusing bool // shutting down: no new sessions
	closing  bool // for good: nobody would end the requests of a session made now
	stats    Stats
	proto    session.Stats

	head [wire.HeaderSize]byte // of a packet that its sender can still change
}

// Init makes e, which is zero, ready.
func (e *Engine) Init(cfg *Config, port Port) {
	e.port, e.cfg, e.pool, e.rng = port, cfg, cfg.Pool, cfg.Rand
	e.handshakes = newHandshakes(e.rng)
	e.Out = session.NewOut(4*cfg.Burst, !cfg.TxCopies)
	e.assocs = newAssocTable(e.rng, &cfg.Shares)
	e.quotas = newQuotas(cfg, port)
	if cfg.Keys != nil {
		e.demandSecurity(cfg.Keys)
	}
	e.timers = newTimers(&cfg.Timing)
	e.paths = paths{cfg: cfg}
	e.in.Now = cfg.Now
}

// Join makes a new engine that of a loop, whose peers share a secret.
func (e *Engine) Join(peers Peers, loop uint8, secret [16]byte) {
	e.peers = peers
	e.table.first = wire.FirstOf(loop)
	e.assocs.loop = loop
	e.handshakes.cookies = session.NewLoopCookies(secret)
}

// Now returns the time of the pass.
func (e *Engine) Now() monotime.Time { return e.in.Now }

// SetNow begins a pass, or sets the time of the one at hand.
func (e *Engine) SetNow(now monotime.Time) { e.in.Now = now }

// Unseen returns what SetUnseen has said.
func (e *Engine) Unseen() time.Duration { return e.in.Unseen }

// SetUnseen says for how long nobody has looked for packets.
func (e *Engine) SetUnseen(d time.Duration) { e.in.Unseen = d }

// Epoch returns the incarnation of the engine, which never changes. It is safe in any goroutine.
func (e *Engine) Epoch() uint64 { return e.handshakes.epoch }

// Loop returns the number of the engine's loop, 0 if it is the only one.
func (e *Engine) Loop() uint8 { return wire.LoopOf(e.table.first) }

// Hand returns the session whose packet was taken last.
func (e *Engine) Hand() *Conn { return e.hand }

// Conn returns the session with a number at this side, nil if there is none.
func (e *Engine) Conn(number uint32) *Conn { return e.table.at(number) }

// Conns returns all sessions by number, nil where a number is free. The caller must not keep it.
func (e *Engine) Conns() []*Conn { return e.table.byNumber }

// Live returns the number of sessions.
func (e *Engine) Live() int { return e.table.live }

// Active returns the client sessions that have requests. The caller must not keep it.
func (e *Engine) Active() []*Conn { return e.timers.active }

// Stats returns the counters.
func (e *Engine) Stats() *Stats { return &e.stats }

// ProtocolStats returns the counters of all sessions together.
func (e *Engine) ProtocolStats() *session.Stats { return &e.proto }

// Rand returns the endpoint's source of numbers.
func (e *Engine) Rand() *rand.Rand { return e.rng }

// Quotas returns what addresses use of the endpoint.
func (e *Engine) Quotas() *Quotas { return &e.quotas }

// The errors that sessions end with; package erpc says what they mean.
var (
	ErrNotRun = errors.New("request not run")

	// These match ErrNotRun.
	ErrResolve  = NotRun("address not resolved")
	ErrRefused  = NotRun("session refused")
	ErrConnect  = NotRun("connect timeout")
	ErrVersion  = NotRun("protocol version not spoken")
	ErrDraining = NotRun("peer is shutting down, request not run")
	ErrInsecure = NotRun("the peer does not encrypt, and this side demands it, or the reverse")
	ErrDenied   = NotRun("peer not authenticated")

	ErrPeerLost      = errors.New("peer lost")
	ErrPeerRestarted = error(&unknownError{"peer restarted"})
	ErrPeerClosed    = error(&unknownError{"session closed by the peer"})
	ErrOutOfStep     = error(&unknownError{"session out of step"})
	ErrTooLarge      = errors.New("message too large")
	ErrExhausted     = errors.New("resource exhausted")
	ErrClosed        = errors.New("closed")
	ErrResponded     = errors.New("no request waits for this response")
)

// ErrPortClosed is the ErrConnect of a session where nobody listens.
var ErrPortClosed = Caused(errors.New("nobody listens at the server's port"), ErrConnect)

// ErrNotTaken is the ErrPeerClosed of a request that the server certainly never took.
var ErrNotTaken = Unsent(ErrPeerClosed)

// ownErrors are the library's names for the errors of the packages below it.
var ownErrors = []struct{ below, own error }{
	{session.ErrRefused, ErrRefused},
	{session.ErrTimeout, ErrConnect},
	{session.ErrVersion, ErrVersion},
	{session.ErrTooLarge, ErrTooLarge},
	{session.ErrExhausted, ErrExhausted},
	{session.ErrClosed, ErrClosed},
	{session.ErrOutOfStep, ErrOutOfStep},
	{session.ErrDraining, ErrDraining},
	{session.ErrNotHandling, ErrResponded},
	{msgbuf.ErrTooLarge, ErrTooLarge},
	{msgbuf.ErrClosed, ErrClosed},
}

// OwnError gives an error of the packages below the library's name. An error that has only one
// of them as a cause keeps its text, and errors.Is finds both. Others stay as they are.
func OwnError(err error) error {
	for _, e := range ownErrors {
		if err == e.below {
			return e.own
		}
	}
	for _, e := range ownErrors {
		if errors.Is(err, e.below) && !errors.Is(err, e.own) {
			err = Caused(err, e.own)
		}
	}
	return err
}

// Caused returns err with an error of the library as a further cause, which its text does not name.
func Caused(err, own error) error { return &causedError{err, own} }

// causedError is an error from below that has an error of the library as its cause.
type causedError struct {
	error
	own error
}

func (e *causedError) Unwrap() []error { return []error{e.error, e.own} }

// Unsent makes an error match ErrNotRun. Its text does not say then that the outcome is unknown.
func Unsent(err error) error {
	if errors.Is(err, ErrNotRun) {
		return err
	}
	if e, ok := err.(*unknownError); ok {
		return Caused(NotRun(e.what+", request not run"), e)
	}
	return Caused(err, ErrNotRun)
}

// unknownError is a named error of requests that may have run.
type unknownError struct{ what string }

func (e *unknownError) Error() string { return e.what + ", outcome unknown" }

// notRunError is a named error that matches ErrNotRun.
type notRunError struct{ text string }

// NotRun returns a named error that matches ErrNotRun.
func NotRun(text string) error { return &notRunError{text} }

func (e *notRunError) Error() string { return e.text }

// Is reports whether target is ErrNotRun.
func (*notRunError) Is(target error) bool { return target == ErrNotRun }
