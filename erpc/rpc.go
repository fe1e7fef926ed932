package erpc

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/ring"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Rpc is one endpoint: a transport, its sessions and an event loop, all used by one
// thread (eRPC, section 3.1). It is both client and server.
//
// All methods belong to the goroutine that runs the loop, and to callbacks inside
// it, except Post, Wake, Stats and LocalAddr, which are safe anywhere. A call from
// another goroutine while the loop runs gives ErrWrongThread.
type Rpc struct {
	engine  engine
	nexus   *Nexus
	cfg     Config
	tr      transport.Transport
	exec    Executor
	clock   func() int64
	rx      []transport.RxPacket
	txBatch int  // packets to send in the middle of a pass; see transport.Caps
	txDear  bool // only if the pass before found nothing
	found   int  // packets that it found
	full    bool // the transport did not take all packets

	owner    atomic.Uintptr // goroutine inside, 0 if none; see enter
	sleeping atomic.Bool    // the loop waits in the transport; written by the loop
	wokenFor atomic.Bool    // a wake-up is on its way
	commands *ring.MPSC[command]
	closed   atomic.Bool
	lastWork int64 // when the loop last had something to do, ns
	polledAt int64 // when the loop last looked for packets, ns
	polling  bool  // it has not slept, or done anything else, since
	idle     int   // passes without work since

	shared     *msgbuf.Pool // for background handlers; safe in any goroutine
	sharedOnce sync.Once
	published  publishedStats
}

// NewRpc makes an endpoint on tr, which it owns from now on, also when it fails.
func (n *Nexus) NewRpc(tr transport.Transport) (*Rpc, error) {
	r, err := n.newRpc(tr)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	return r, nil
}

func (n *Nexus) newRpc(tr transport.Transport) (*Rpc, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	n.frozen = true
	caps, path := tr.Caps(), tr.Path(transport.Addr{})
	r := &Rpc{nexus: n, cfg: n.cfg, tr: tr, exec: n.executor(), clock: n.cfg.Clock}
	if r.clock == nil {
		r.clock = monotime.Now
	}
	// A host that holds packets up by itself is no sign of loss.
	r.cfg.Timing.RTOMin = leastRTO(&r.cfg.Timing, path.HostDelay)
	r.rx = make([]transport.RxPacket, r.cfg.Burst)
	if r.txBatch = math.MaxInt; caps.TxBatch > 0 {
		r.txBatch, r.txDear = caps.TxBatch, caps.TxDear
	}
	r.commands = ring.NewMPSC[command](max(1024, 2*r.cfg.MaxBackground))
	e := &r.engine
	e.rpc, e.cfg, e.handlers = r, &r.cfg, &n.handlers
	e.mtu, e.rxRing, e.rxShared = caps.MTU, caps.RxRing, path.Shared
	if r.cfg.MTU != 0 {
		e.mtu = min(e.mtu, r.cfg.MTU)
	}
	if e.mtu < session.MinMTU {
		return nil, &ConfigError{"MTU", fmt.Sprintf("%d is less than %d", e.mtu, session.MinMTU)}
	}
	e.checksum = r.cfg.Checksum || !path.Checksummed
	pool, err := msgbuf.NewPool(r.poolConfig())
	if err != nil {
		return nil, err
	}
	e.pool = pool
	e.rng = n.random()
	e.epoch = e.rng.Uint64() | 1
	var secret [32]byte
	for i := range secret {
		secret[i] = byte(e.rng.Uint32())
	}
	e.cookies = session.NewCookies(secret)
	e.pacing = r.cfg.Congestion.pacing(&caps, path.HostDelay)
	e.out = session.NewOut(4*r.cfg.Burst, nil)
	e.byKey = make(map[connKey]*Session)
	e.epochs = make(map[transport.Addr]*peerEpoch)
	e.peers = make(map[peerKey]*peer)
	for t := range e.refuse {
		if t > wire.MaxReqType || n.handlers[t].fn == nil {
			e.refuse[t] = wire.CodeNoHandler
		}
	}
	e.resetsLeft = resetsPerSweep
	e.now = r.clock()
	r.lastWork = e.now
	return r, nil
}

// rtoHosts is the least retransmission timeout in units of what the hosts add to a round trip: a loop
// that shares its core waits several times as long now and then.
const rtoHosts = 20

// leastRTO returns the least retransmission timeout where the hosts add delay to a round trip.
func leastRTO(t *session.Timing, delay time.Duration) time.Duration {
	return max(t.RTOMin, min(rtoHosts*delay, t.RTOMax))
}

// poolConfig is the configuration of a pool of message buffers, whose memory the transport is told of if
// it wants to know.
func (r *Rpc) poolConfig() msgbuf.Config {
	cfg := msgbuf.Config{MaxMessage: r.cfg.MaxMessage, Hugepages: !r.cfg.NoHugepages, Limit: r.cfg.MemoryLimit}
	if reg, ok := r.tr.(transport.Registrar); ok {
		cfg.Register, cfg.Unregister = reg.Register, reg.Unregister
	}
	return cfg
}

// enter makes sure that the caller may use the Rpc: nobody is inside, or the caller
// itself is (nested is true then, and leave must not be called).
func (r *Rpc) enter() (nested bool, err error) {
	g := gid.Current()
	if r.owner.Load() == g && gid.Exact {
		return true, nil
	}
	if !r.owner.CompareAndSwap(0, g) {
		if !gid.Exact { // the goroutine cannot be told apart: a callback is the likely caller
			return true, nil
		}
		return false, ErrWrongThread
	}
	if r.closed.Load() {
		r.owner.Store(0)
		return false, ErrClosed
	}
	r.engine.now = r.clock()
	return false, nil
}

func (r *Rpc) leave() { r.owner.Store(0) }

// LocalAddr returns the address that peers connect to.
func (r *Rpc) LocalAddr() transport.Addr { return r.tr.LocalAddr() }

// Alloc returns a message buffer of n bytes with undefined contents, for this
// Rpc's requests and responses. Errors: ErrTooLarge, ErrExhausted.
func (r *Rpc) Alloc(n int) (*MsgBuffer, error) {
	nested, err := r.enter()
	if err != nil {
		return nil, err
	}
	b, err := r.engine.pool.Alloc(n)
	if !nested {
		r.leave()
	}
	return b, allocError(err)
}

// allocError gives the pool's errors the library's names.
func allocError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, msgbuf.ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, msgbuf.ErrClosed):
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrExhausted, err)
}

// allocShared is Alloc for background handlers.
func (r *Rpc) allocShared(n int) (*MsgBuffer, error) {
	r.sharedOnce.Do(func() {
		// The configuration is the one that made the first pool.
		cfg := r.poolConfig()
		cfg.Hugepages, cfg.Shared = false, true
		r.shared, _ = msgbuf.NewPool(cfg)
	})
	b, err := r.shared.Alloc(n)
	return b, allocError(err)
}

// CreateSession starts to open a client session to the endpoint at addr. Requests
// may be enqueued at once; they leave when the session is open. OnSession tells the
// outcome. Errors: those of the transport's Resolve, ErrExhausted, ErrWrongThread,
// ErrClosed.
func (r *Rpc) CreateSession(addr string) (*Session, error) {
	to, err := r.tr.Resolve(addr)
	if err != nil {
		return nil, err
	}
	return r.CreateSessionTo(to)
}

// CreateSessionTo is CreateSession with an address of the transport.
func (r *Rpc) CreateSessionTo(to transport.Addr) (*Session, error) {
	nested, err := r.enter()
	if err != nil {
		return nil, err
	}
	if !nested {
		defer r.leave()
	}
	return r.engine.dial(to)
}

// CloseSession ends a session of either kind. Requests in flight end with
// ErrClosed before it returns. The peer is told.
func (r *Rpc) CloseSession(s *Session) error {
	nested, err := r.enter()
	if err != nil {
		return err
	}
	if !nested {
		defer r.leave()
	}
	if s == nil || s.rpc != r {
		return ErrRequest
	}
	r.engine.closeSession(s)
	return nil
}

// Sessions returns the number of sessions of both kinds.
func (r *Rpc) Sessions() int { return r.engine.numLive }

// Running returns the number of requests, of all sessions, whose handlers have not
// responded.
func (r *Rpc) Running() int {
	n := 0
	for _, s := range r.engine.sessions {
		if s != nil && s.sv != nil {
			n += s.sv.Running()
		}
	}
	return n + r.engine.numJobs
}

// Refuse makes the endpoint answer new sessions and new requests with "shutting
// down", while those under way go on.
func (r *Rpc) Refuse() error {
	nested, err := r.enter()
	if err != nil {
		return err
	}
	if !nested {
		defer r.leave()
	}
	r.engine.refuseNew = true
	for t := range r.engine.refuse {
		r.engine.refuse[t] = wire.CodeShutdown
	}
	return nil
}

// Close ends all sessions, tells the peers once, and frees everything, the
// transport too. Requests in flight end with ErrClosed before it returns. It gives
// msgbuf.ErrLeak if the application still has buffers; they stay readable.
func (r *Rpc) Close() error {
	nested, err := r.enter()
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	if nested {
		return fmt.Errorf("close inside a callback: %w", ErrWrongThread)
	}
	defer r.leave()
	r.engine.refuseNew, r.engine.closing = true, true
	for _, s := range r.engine.sessions {
		if s != nil {
			r.engine.closeSession(s)
		}
	}
	r.drainCommands()
	r.drain()
	r.closed.Store(true)
	r.drainCommands() // what came before closed was seen
	r.published.publish(r)
	err = errors.Join(r.tr.Close(), r.engine.pool.Close())
	if r.shared != nil {
		err = errors.Join(err, r.shared.Close())
	}
	return err
}

func (r *Rpc) logPanic(reqType uint8, p any) {
	r.cfg.Logger.Error("background handler panicked", "reqtype", reqType, "panic", p, "stack", string(debug.Stack()))
}
