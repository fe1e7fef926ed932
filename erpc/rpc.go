package erpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/cpuquota"
	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/idle"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/ring"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Rpc is one endpoint: a transport, its sessions and an event loop, all used by one
// thread (eRPC, section 3.1). It is both client and server.
//
// All methods belong to the goroutine that runs the loop, and to callbacks inside
// it, except Post, Wake, Stats, Snapshot, Rpcs and LocalAddr, which are safe anywhere. A call from
// another goroutine while Run or RunFor is at work, asleep too, gives ErrWrongThread; such
// goroutines use Post. While nobody runs the loop, which is so between two RunOnce, any one
// goroutine may call. Go has no name for goroutines: builds with the tag purego, and those for
// other processors than amd64 and arm64, cannot tell callers apart, and a wrong one is not noticed.
// A handler of mode Background, and only it, may use its ReqHandle in another goroutine.
type Rpc struct {
	engine   engine.Engine
	nexus    *Nexus
	cfg      Config
	pool     *msgbuf.Pool
	tr       transport.Transport
	source   func() monotime.Time // of clock
	shift    atomic.Int64         // what it has gone back by, in ns
	lends    atomic.Bool          // callers may find it vacant; rarely written, unlike state
	rx       []transport.RxPacket
	handout  handout
	fresh    freshCalls
	txBatch  int              // packets to send in the middle of a pass; see transport.Caps
	txCostly bool             // only if the pass before found nothing
	found    int              // packets that it found
	heard    []transport.Hint // memory for the transport's hints
	waiting  int              // hints in heard that the engine has not got
	full     bool             // the transport did not take all packets

	owner     atomic.Uintptr // who may use the Rpc; see enter
	state     atomic.Uint32  // awake, asleep or vacant
	wokenFor  atomic.Bool    // a wake-up is on its way
	begun     atomic.Int64   // when a pass began, the last one or one at most an epoch before it
	commands  *ring.MPSC[command]
	closed    atomic.Bool
	lastWork  monotime.Time // when the loop last had something to do
	polledAt  monotime.Time // when the loop last looked for packets
	emptyAt   monotime.Time // when it last found none
	bursts    burstTimes
	yieldedAt monotime.Time // when it last let other goroutines run before a sleep
	polling   bool          // it has not slept, or done anything else, since
	idle      idle.Policy   // how the loop waits when it has nothing to do
	procs     int64         // goroutines that can run at a time

	quota     *cpuquota.Watch
	throttled uint64 // its last count

	shared        atomic.Pointer[msgbuf.Pool] // for background handlers; safe in any goroutine
	sharedOnce    sync.Once
	inbox         *inbox // datagrams from other loops of the address; nil if there are none
	published     publishedStats
	publishedAt   monotime.Time // when the loop did that last
	snapshots     snapshots
	back          chan struct{} // of a Loop, see recall
	blockingPosts chan struct{} // has room while no such post is under way
	group         *group        // the loops of the address; nil if there is one
	number        int           // of the loop in its group, 0 if it is alone
	claim         *claim        // to tr
	late          late
	rest          uintptr // owner when nobody is inside; for who is

	// The application's side of the engine: what its requests and handlers are known by.
	calls    callTable
	jobs     jobTable
	batches  batchTable
	after    callTimers
	refusals [256]wire.Code // per request type: why it is refused
	meter    *meter         // counts by request type; nil until somebody asks for a snapshot
	stats    Stats          // what the engine does not count

	idleWatch    idleWatch
	alarm        alarm
	recorder     *flight.Ring  // the last datagrams; nil if they are not recorded
	leaving      monotime.Time // when the TX batch was made ready; for the recorder
	engineConfig engine.Config
}

// NewRpc makes an endpoint on tr, which it owns from now on, also when it fails. A transport that
// another endpoint owns stays as it is, and the error is ErrTransportInUse.
func (n *Nexus) NewRpc(tr transport.Transport) (*Rpc, error) {
	c, err := take(tr)
	if err != nil {
		return nil, err
	}
	return n.rpcOn(c)
}

// rpcOn is NewRpc with a transport that the caller has taken.
func (n *Nexus) rpcOn(c *claim) (*Rpc, error) {
	r, err := n.newRpc(c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return r, nil
}

func (n *Nexus) newRpc(c *claim) (*Rpc, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	n.frozen = true
	tr, caps := c.tr, c.tr.Caps()
	r := &Rpc{nexus: n, cfg: n.cfg, tr: tr, claim: c, source: n.cfg.Simulation.Clock}
	r.blockingPosts = make(chan struct{}, 1)
	r.quota = new(cpuquota.Watch)
	if r.source == nil {
		r.source, r.quota = monotime.Now, quota
	}
	r.rx = make([]transport.RxPacket, r.cfg.Burst)
	if r.txBatch = math.MaxInt; caps.TxBatch > 0 {
		r.txBatch, r.txCostly = caps.TxBatch, caps.TxCostly
	}
	r.heard = make([]transport.Hint, engine.MaxICMPOnce)
	r.commands = ring.NewMPSC[command](max(minCommands, 2*r.cfg.MaxBackground))
	mtu := caps.MTU
	if r.cfg.MTU != 0 {
		mtu = min(mtu, r.cfg.MTU)
	}
	if minimum := n.minMTU(); mtu < minimum {
		return nil, &ConfigError{"MTU", fmt.Sprintf("is %d with this transport, must be at least %d",
			mtu, minimum)}
	}
	pool, err := msgbuf.NewPool(r.poolConfig())
	if err != nil {
		return nil, err
	}
	r.pool = pool
	r.jobs.exec = n.cfg.Simulation.Executor
	if r.jobs.exec == nil {
		r.jobs.pool = n.workers()
	}
	r.batches, r.after = newBatchTable(n.batches), newCallTimers()
	for t := range r.refusals {
		if t > MaxReqType || !n.handlers[t].registered() {
			r.refusals[t] = ReasonNoHandler.wire()
		}
	}
	r.engineConfig = n.engineConfig(r, mtu, &caps)
	r.engine.Init(&r.engineConfig, port{r})
	r.lastWork = r.engine.Now()
	r.begun.Store(int64(r.lastWork))
	r.throttled = r.quota.Throttled(r.lastWork)
	if r.procs = int64(runtime.GOMAXPROCS(0)); n.cfg.Simulation.Clock != nil {
		r.procs = math.MaxInt64 // the machine below a simulation does not matter
		if r.cfg.Wait == WaitSleep {
			r.cfg.SpinFor = 0 // its time may stand still until the loop sleeps
		}
	}
	r.idle.Init(idle.Config{
		Mode: idle.Mode(r.cfg.Wait), SpinFor: r.cfg.SpinFor, Locked: r.cfg.LockThread,
	})
	loops.Add(1)
	if t, ok := tr.(interface{ Refused() []string }); ok && len(t.Refused()) > 0 {
		r.cfg.Logger.Warn("the system refuses what the transport asks for: it does without",
			"transport", caps.Name, "refused", t.Refused(), "mtu", caps.MTU)
	}
	return r, nil
}

// engineConfig is the configuration of the engine of a new Rpc.
func (n *Nexus) engineConfig(r *Rpc, mtu int, caps *transport.Caps) engine.Config {
	c, link := &r.cfg, r.cfg.Congestion.linkRate(caps)
	return engine.Config{
		Slots: c.Slots, Credits: c.Credits, LeastWindow: c.LeastWindow, Waiting: c.Waiting,
		MaxMessage: c.MaxMessage, MaxSessions: c.MaxSessions, MaxQueue: c.MaxQueue,
		MTU: mtu, RxRing: caps.RxRing, Burst: c.Burst, TxCopies: caps.TxCopies,
		Checksum: c.Checksum, NoBundles: c.NoBundles,
		Timing: session.Timing(c.Timing), Shares: engine.Shares(c.Shares),
		DialOnly: c.DialOnly, TrustLocal: c.TrustLocal, KeyUpdate: c.KeyUpdate,
		Oldest: c.oldest, Newest: c.newest, Logger: c.Logger,
		NoBatchedTime: c.Experiment.NoBatchedTime,
		Inline:        c.Simulation.Clock != nil, Seeded: c.Simulation.Seed != 0,
		Pool: r.pool, Rand: n.random(), Book: n.memory, Keys: n.keys, Now: r.clock(),
		Refusals: &r.refusals,
		Pacing:   func(path *transport.Path) *session.Pacing { return c.pacing(link, mtu, path) },
		NewConn:  r.newConn,
	}
}

// minMTU is the size of the smallest packets that a transport must carry, in bytes.
func (n *Nexus) minMTU() int {
	if n.keys != nil {
		return MinMTU + security.Overhead
	}
	return MinMTU
}

// readClock returns the loop's time, which never goes back: timers would wait a second time.
func (r *Rpc) readClock() monotime.Time {
	now := r.clock()
	if now < r.engine.Now() {
		return r.wentBack(now)
	}
	return now
}

// wentBack follows a clock that went back, to now: it is shifted to where it was.
//
//go:noinline
func (r *Rpc) wentBack(now monotime.Time) monotime.Time {
	past := r.engine.Now()
	r.shift.Add(int64(past.Sub(now)))
	return past
}

// clock returns the time, in any goroutine. It may go back until the loop looks at it.
func (r *Rpc) clock() monotime.Time { return r.source() + monotime.Time(r.shift.Load()) }

// port is the engine's way to its Rpc.
type port struct{ *Rpc }

func (p port) Drain()                                  { p.drain() }
func (p port) ReadClock() monotime.Time                { return p.readClock() }
func (p port) PathTo(to transport.Addr) transport.Path { return p.tr.Path(to) }
func (p port) IsPrivate(from transport.Addr) bool      { return p.tr.IsPrivate(from) }

// Renew asks for another port. A transport that has none goes on with the one that it has.
func (p port) Renew(to transport.Addr) { _ = p.tr.Renew(to) }

// Hints takes what the transport has heard.
func (p port) Hints() []transport.Hint {
	n := p.waiting
	if p.waiting = 0; n == 0 {
		n = p.tr.Hints(p.heard)
	}
	return p.heard[:n]
}

// Post runs fn in the loop.
func (p port) Post(fn func()) bool {
	return p.Rpc.Post(func(r *Rpc) {
		fn()
		r.settle()
	}) == nil
}

// poolConfig is the configuration of a pool of message buffers. The transport is told their memory.
func (r *Rpc) poolConfig() msgbuf.Config {
	return msgbuf.Config{
		MaxMessage: r.cfg.MaxMessage, Hugepages: !r.cfg.NoHugepages, Budget: r.nexus.memory.Budget(),
		Register: r.tr.Register, Unregister: r.tr.Unregister,
	}
}

// LocalAddr returns the address that peers connect to.
func (r *Rpc) LocalAddr() transport.Addr { return r.tr.LocalAddr() }

// Alloc returns a message buffer of n bytes with undefined contents, for this
// Rpc's requests and responses. Errors: ErrTooLarge, ErrExhausted.
func (r *Rpc) Alloc(n int) (*MsgBuffer, error) {
	nested, err := r.enter()
	if err != nil {
		return nil, err
	}
	b, err := r.pool.Alloc(n)
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
		p, _ := msgbuf.NewPool(cfg)
		r.shared.Store(p)
	})
	p := r.shared.Load()
	if p == nil {
		return nil, ErrClosed // before the first one
	}
	b, err := p.Alloc(n)
	return b, allocError(err)
}

// trim gives back the memory of message buffers that nobody uses: other Rpcs may need it.
func (r *Rpc) trim() {
	r.pool.Trim()
	if p := r.shared.Load(); p != nil {
		p.Trim()
	}
}

// CreateSession starts to open a client session to the endpoint at addr. Requests
// may be enqueued at once; they leave when the session is open. OnSession tells the
// outcome. Errors: those of the transport's Resolve, ErrExhausted, ErrWrongThread,
// ErrClosed.
//
// Where the network says that nobody listens the session ends within milliseconds, with ErrConnect:
// who dials again waits a while before.
//
// The name of a host is looked up in another goroutine, and the loop goes on. A session whose name
// has no answer within Timing.ConnectTimeout ends with ErrResolve; the goroutine stays until the
// name service has answered or given up.
func (r *Rpc) CreateSession(addr string) (*Session, error) {
	if hasName(addr) {
		return r.createNamed(addr)
	}
	to, err := r.tr.Resolve(addr)
	if err != nil {
		return nil, err
	}
	return r.createTo(to, hostOf(addr))
}

// hasName reports whether an address has the name of a host, which takes a name service.
func hasName(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.HasPrefix(addr, "shm:") {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// hostOf returns the host in an address as text, the name or the IP address that a certificate has;
// "" if it has none. A transport may reach the host in another way than by that address.
func hostOf(addr string) string {
	if hasName(addr) {
		return addr[:strings.LastIndexByte(addr, ':')]
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil || at.Addr().IsUnspecified() {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// createNamed is CreateSession with the name of a host.
func (r *Rpc) createNamed(addr string) (*Session, error) {
	nested, err := r.enter()
	if err != nil {
		return nil, err
	}
	if !nested {
		defer r.leave()
	}
	c, err := r.engine.DialName(hostOf(addr), r.cfg.Timing.ConnectTimeout)
	if err != nil {
		return nil, err
	}
	go func() {
		to, err := r.tr.Resolve(addr)
		err = resolveError(err)
		// In vain only if the loop has ended.
		_ = r.Post(func(*Rpc) {
			r.engine.Named(c, to, err)
			r.settle()
		})
	}()
	return sessionOf(c), nil
}

// CreateSessionTo is CreateSession with an address of the transport.
func (r *Rpc) CreateSessionTo(to transport.Addr) (*Session, error) { return r.createTo(to, "") }

func (r *Rpc) createTo(to transport.Addr, host string) (*Session, error) {
	nested, err := r.enter()
	if err != nil {
		return nil, err
	}
	if !nested {
		defer r.leave()
	}
	return r.dial(to, host, r.cfg.Timing.ConnectTimeout)
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
	r.engine.CloseConn(&s.conn)
	r.settle()
	return nil
}

// Sessions returns the number of sessions of both kinds.
func (r *Rpc) Sessions() int { return r.engine.Live() }

// Running returns the number of requests, of all sessions, whose handlers have not
// responded.
func (r *Rpc) Running() int { return r.running() }

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
	r.refuseNew()
	return nil
}

// Close ends all sessions, tells the peers once, and frees everything, the
// transport too. Requests in flight end with ErrClosed before it returns. It gives
// ErrBufferLeak if the application still has buffers; they stay readable. Background handlers at
// work go on, and what they answer is dropped: their requests, and the responses that they have
// allocated, are freed when they have answered.
func (r *Rpc) Close() error {
	nested, err := r.enter()
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	if nested {
		return engine.Caused(
			errors.New("close inside a callback: close the Rpc after it has returned"), ErrWrongThread)
	}
	defer r.leave()
	r.leaveGroup()
	r.engine.CloseAll()
	r.settle()
	r.handAll()
	r.drainCommands()
	r.settle()
	r.drain()
	r.closed.Store(true)
	loops.Add(-1)
	for r.commands.Len() > 0 { // what came before closed was seen, or is just coming
		if r.drainCommands() == 0 {
			runtime.Gosched()
		}
	}
	r.published.publish(r)
	return errors.Join(r.claim.close(), r.closePools())
}

func (r *Rpc) logPanic(reqType uint8, p any) {
	r.cfg.Logger.Error("background handler panicked", "reqtype", reqType, "panic", p, "stack",
		string(debug.Stack()))
}

// Rpc.owner is 0 if any goroutine may enter, a goroutine that is inside, or one of these.
const (
	// Added to a goroutine, whose number is even: it runs the loop, and is outside. Nobody else may
	// enter.
	outside uintptr = 1
	// Nobody may enter.
	barred uintptr = 2
)

// enter makes sure that the caller may use the Rpc: nobody is inside nor runs the loop, or the
// caller itself does. It is nested if it is inside; leave must not be called then.
func (r *Rpc) enter() (nested bool, err error) {
	g := gid.Current()
	if o := r.owner.Load(); o == g && gid.Exact {
		return true, nil
	} else if o == g|outside && gid.Exact {
		r.owner.Store(g)
	} else if !r.owner.CompareAndSwap(0, g) {
		if !gid.Exact { // the goroutine cannot be told apart: a callback is the likely caller
			return true, nil
		}
		return false, ErrWrongThread
	}
	if r.closed.Load() {
		r.owner.Store(r.rest)
		return false, ErrClosed
	}
	r.engine.SetNow(r.readClock())
	if len(r.jobs.batch) > 0 {
		r.handOverJobs() // of the last pass, after which there is always another one
	}
	return false, nil
}

// leave settles what the caller has caused, and lets others in.
func (r *Rpc) leave() {
	r.settle()
	r.owner.Store(r.rest)
}

// bind makes the caller the one that runs the loop, until unbind. It returns what unbind needs.
func (r *Rpc) bind() (before uintptr, err error) {
	if !gid.Exact {
		return 0, nil
	}
	me := gid.Current() | outside
	if r.owner.Load() == me {
		return me, nil // inside stop of another Run
	}
	if !r.owner.CompareAndSwap(0, me) {
		return 0, ErrWrongThread // also a callback's, which must not run the loop
	}
	r.rest = me
	return 0, nil
}

// unbind undoes bind, in the same goroutine. If a callback has ended that, the Rpc stays as it is.
func (r *Rpc) unbind(before uintptr) {
	if gid.Exact && r.owner.Load() == gid.Current()|outside {
		r.rest = before
		r.owner.Store(before)
	}
}

// bar keeps everybody out, the one that runs the loop too, until that calls unbar or another
// goroutine takes the loop over.
func (r *Rpc) bar() {
	if gid.Exact {
		r.owner.Store(barred)
	}
}

// unbar undoes bar.
func (r *Rpc) unbar() { r.owner.Store(r.rest) }

// takeOver makes the caller the one that runs the loop, which nobody does or which is barred.
func (r *Rpc) takeOver() {
	r.rest = 0
	if gid.Exact {
		r.rest = gid.Current() | outside
	}
	r.owner.Store(r.rest)
}

// command is something that another goroutine wants done in the Rpc's thread. One
// field is set.
type command struct {
	job *job       // a background handler has responded
	fn  func(*Rpc) // Post
	c   *goCall    // Client.Call: start, or cancel if it has been started
}

// A loop has room for two commands for each background handler, and at least for so many.
const minCommands = 1024

// post hands c to the loop and wakes it. It waits while the ring is full. It
// returns false if the Rpc is closed.
func (r *Rpc) post(c command) bool { return r.push(c) && r.pushed() }

// push is the first half of post: pushed follows, or the caller runs the loop.
func (r *Rpc) push(c command) bool {
	for !r.commands.Push(c) {
		if r.closed.Load() {
			r.late.tidy(r, c.job)
			return false
		}
		r.Wake()
		runtime.Gosched()
	}
	return true
}

// pushed wakes the loop for what was pushed.
func (r *Rpc) pushed() bool {
	r.wakeIfSleeping()
	if r.closed.Load() {
		r.late.tidy(r, nil)
		return false
	}
	return true
}

func (r *Rpc) wakeIfSleeping() {
	switch r.state.Load() {
	case asleep:
		if r.wokenFor.CompareAndSwap(false, true) {
			r.tr.Wake()
		}
	case vacant:
		r.recall()
	}
}

// Post runs fn in the Rpc's thread, in the next pass of its loop. It is safe in any
// goroutine. It returns ErrClosed if the Rpc is closed.
func (r *Rpc) Post(fn func(*Rpc)) error {
	if r.closed.Load() || !r.post(command{fn: fn}) {
		return ErrClosed
	}
	return nil
}

// GiveWay says that a callback has woken other goroutines, which will have something for the loop:
// it lets them run before it looks for packets again. It is for callbacks and Dispatch handlers.
func (r *Rpc) GiveWay() { r.engine.Handed++ }

// Wake makes a sleeping loop run a pass. It is safe in any goroutine.
func (r *Rpc) Wake() {
	r.recall()
	r.tr.Wake()
}

// dial starts to open a session, and gives up after limit.
func (r *Rpc) dial(to transport.Addr, host string, limit time.Duration) (*Session, error) {
	c, err := r.engine.Dial(to, host, limit)
	if err != nil {
		return nil, err
	}
	return sessionOf(c), nil
}

// drop ends a session for a command.
func (r *Rpc) drop(s *Session) { r.engine.CloseConn(&s.conn) }

// drainCommands runs the commands that have come, at most a ring full, so that
// commands that cause commands do not keep packets waiting.
func (r *Rpc) drainCommands() int {
	n := 0
	for limit := r.commands.Cap(); n < limit; n++ {
		c, ok := r.commands.Pop()
		if !ok {
			break
		}
		switch {
		case c.job != nil:
			r.finishJob(c.job)
		case c.c != nil:
			c.c.onLoop(r)
		default:
			c.fn(r)
		}
	}
	return n
}

// pushEvery is how often a blocking post looks for room in the ring of commands while that is full.
const pushEvery = time.Millisecond

// blockingPost has fn run in the loop and waits for it no longer than ctx. One is under way at a
// time, so a loop that is stuck gathers none; others wait for it, no longer than their contexts
// either. After an error fn has not run and will not. Errors: ErrClosed, those of a context as in
// Client.Call.
func (r *Rpc) blockingPost(ctx context.Context, fn func(*Rpc)) error {
	select {
	case r.blockingPosts <- struct{}{}:
	case <-ctx.Done():
		return contextError(ctx)
	}
	release := sync.OnceFunc(func() { <-r.blockingPosts })
	done := make(chan struct{})
	var begun atomic.Bool // or given up
	err := r.postUntil(ctx, command{fn: func(r *Rpc) {
		release()
		if !begun.Swap(true) {
			fn(r)
			close(done)
		}
	}})
	if err != nil {
		if begun.Swap(true) {
			<-done // it ran beside Close
			return nil
		}
		release()
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if begun.Swap(true) {
			<-done
			return nil
		}
		return contextError(ctx) // the loop releases when it meets the command
	}
}

// postUntil is post that waits for room no longer than ctx, and does not spin.
func (r *Rpc) postUntil(ctx context.Context, c command) error {
	for !r.commands.Push(c) {
		if r.closed.Load() {
			return ErrClosed
		}
		r.Wake()
		select {
		case <-ctx.Done():
			return contextError(ctx)
		case <-time.After(pushEvery):
		}
	}
	r.wakeIfSleeping()
	if r.closed.Load() {
		return ErrClosed
	}
	return nil
}

// claims has the claim of each transport that an endpoint owns, by what it points to. Claims are
// held weakly: an endpoint that the program drops without Close goes with its transport, and while
// a claim lives so does what it points to. Transports that are no pointers, or pointers to nothing,
// are not there: nobody can tell them apart.
var claims sync.Map // claimKey to weak.Pointer[claim]

// claimKey names a transport.
type claimKey struct {
	kind reflect.Type
	at   uintptr
}

// claim makes its holder the owner of a transport, until it closes that.
type claim struct {
	tr  transport.Transport
	key claimKey // zero if it is not in claims
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// take makes the caller the owner of a transport. If it fails, the transport is as it was.
func take(tr transport.Transport) (*claim, error) {
	if isNil(tr) {
		return nil, &ConfigError{"Transport", "is nil"}
	}
	v := reflect.ValueOf(tr)
	c := &claim{tr: tr}
	if v.Kind() != reflect.Pointer || v.Type().Elem().Size() == 0 {
		return c, nil
	}
	c.key = claimKey{v.Type(), v.Pointer()}
	mine := weak.Make(c)
	for {
		old, taken := claims.LoadOrStore(c.key, mine)
		switch {
		case !taken:
			runtime.AddCleanup(c, func(k claimKey) { claims.CompareAndDelete(k, mine) }, c.key)
			return c, nil
		case old.(weak.Pointer[claim]).Value() != nil:
			return nil, ErrTransportInUse
		}
		claims.CompareAndDelete(c.key, old) // of an endpoint that has been dropped
	}
}

// close closes the transport, which has no owner then.
func (c *claim) close() error {
	err := c.tr.Close()
	c.drop()
	return err
}

// drop ends the claim.
func (c *claim) drop() { claims.CompareAndDelete(c.key, weak.Make(c)) }
