package erpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// ErrNoServer means that no server of a Pool takes calls. The call was not sent: the error matches
// ErrNotRun. Errors with ErrNoServer also match the reason why a server failed last.
var ErrNoServer = engine.NotRun("no server takes calls, request not sent")

// Pool calls several servers that do the same, from any number of goroutines. Each call goes to one
// server that is ready.
//
// The Pool owns a Client per server, and nothing else: the Loops are the caller's, and may have
// other Clients. A server's state belongs to its Client's loop, which tells the Pool when it
// changes. Callers choose from a list that is replaced then, without a lock.
//
// A server is ejected, and gets no more calls, when its sessions are lost (an unreachable port is
// noticed within milliseconds), and when it has owed answers in silence for Timing.SilenceTimeout,
// or longer if the path to it is long. It is pinged meanwhile: slow handlers and lost packets are
// no silence, nor is time in which the Loop itself did not run. At most half of the servers that
// have a session are ejected for silence, rounded down: one of two or three, never a single one. A
// silent one returns when it is heard again, a lost one when a new session is open; the Pool asks
// for both by itself. Calls under way to it go on until they end by themselves.
//
// A server that misbehaves harms only calls to itself: one that refuses all sessions or drains for
// ever is asked again once per second; one that answers pings and no calls stays ready, and calls
// to it end with their deadlines. Nothing that it sends touches other servers.
type Pool struct {
	cfg    PoolConfig
	loops  []*Loop
	roster atomic.Pointer[roster]
	turn   atomic.Uint64
	closed atomic.Bool
	names  naming

	mu      sync.Mutex
	members []*member
	leaving map[*member]struct{} // they have calls under way, and get no more
	failure error                // why a server failed last
}

// PoolConfig configures a Pool. Either Servers or Resolver is set.
type PoolConfig struct {
	// Servers are the addresses of the servers, as the Loops' transport resolves them. The name in
	// each is looked up again before a new session opens.
	Servers []string
	// Resolver returns the addresses of the servers that there are now; order and repetitions do not
	// matter. It is called at the start, every ResolveEvery, and after a server has failed, in a
	// goroutine, one at a time. An error or no addresses leave the servers as they are. Its context
	// ends with the Pool, which does not wait for it.
	Resolver func(ctx context.Context) ([]string, error)
	// ResolveEvery is the time between two calls of Resolver. Default 30 s; at least 1 s.
	ResolveEvery time.Duration
	// Choice says which of the ready servers a call gets.
	Choice Choice
	// Paths is how many members the Pool has for each server, each on another Loop, with sessions of
	// its own from another port. Switches choose among equal paths by addresses and ports, and clouds
	// limit what one such flow carries; with LeastLoaded a congested path gets fewer calls. Default 1;
	// at most as many as there are Loops.
	Paths int
}

// Choice is a way to choose a server.
type Choice uint8

const (
	// RoundRobin takes the ready servers in turn. It is the default.
	RoundRobin Choice = iota
	// LeastLoaded takes the server with the fewest calls of this Pool under way, of 16 that are next
	// in turn.
	LeastLoaded
)

// maxCompared is how many servers LeastLoaded compares.
const maxCompared = 16

// CallOptions say how a Pool makes a call.
type CallOptions struct {
	// WaitForReady makes the call wait until a server is ready, or the context ends. Otherwise it
	// fails with ErrNoServer, unless a server is about to connect for the first time, or is silent
	// but has a session: then it waits until that is decided.
	WaitForReady bool
	// Repeat makes the Pool ask other servers, each once, while those asked certainly have not run
	// the call: they refused it for their limits, or shut down.
	Repeat bool
}

// ServerState is the state of a server of a Pool.
type ServerState uint8

// The states of a server.
const (
	ServerConnecting ServerState = iota // it is being connected to for the first time
	ServerReady                         // it takes calls
	ServerFailing                       // it could not be connected to; the Pool tries again
	ServerEjected                       // it was ready, and is lost or silent
	ServerDraining                      // it shuts down; the Pool tries to connect again
	serverGone                          // it is no longer in the Pool
)

// String returns the state's name.
func (s ServerState) String() string {
	if s <= serverGone {
		return [...]string{"connecting", "ready", "failing", "ejected", "draining", "gone"}[s]
	}
	return "unknown"
}

// ServerStatus describes a server of a Pool.
type ServerStatus struct {
	Addr     string
	State    ServerState
	InFlight int   // calls under way
	Err      error // why it is not ready, nil if nothing has failed
}

// roster has the members that callers choose from. It is replaced, never changed.
type roster struct {
	ready   []*member     // the preferred ones
	spares  []*member     // the others
	local   uint64        // of 256 calls, how many go to the preferred ones
	hope    bool          // a server may be ready soon
	changed chan struct{} // closed when there is a newer roster
}

// NewPool makes a Pool whose servers are spread over loops, and begins to connect to them. It does
// not wait: Ready does. Close it before the Loops. Errors: a *ConfigError, ErrClosed.
func NewPool(cfg PoolConfig, loops ...*Loop) (*Pool, error) {
	switch {
	case len(loops) == 0:
		return nil, &ConfigError{"Loops", "are missing: give NewPool one or more"}
	case (len(cfg.Servers) == 0) == (cfg.Resolver == nil):
		return nil, &ConfigError{"Servers", "and Resolver: set one of them, not both"}
	case cfg.ResolveEvery < 0:
		return nil, negative("ResolveEvery", cfg.ResolveEvery)
	case cfg.Paths < 0 || cfg.Paths > len(loops):
		return nil, &ConfigError{"Paths",
			fmt.Sprintf("is %d, must be 0 to %d, the number of Loops", cfg.Paths, len(loops))}
	case cfg.Choice > LeastLoaded:
		return nil, &ConfigError{"Choice",
			fmt.Sprintf("is %d, must be at most LeastLoaded", cfg.Choice)}
	}
	if cfg.ResolveEvery == 0 {
		cfg.ResolveEvery = 30 * time.Second
	}
	cfg.ResolveEvery = max(cfg.ResolveEvery, minResolve)
	cfg.Paths = max(cfg.Paths, 1)
	for _, l := range loops {
		if l.closed.Load() {
			return nil, ErrClosed
		}
	}
	p := &Pool{cfg: cfg, loops: loops, leaving: make(map[*member]struct{})}
	p.roster.Store(&roster{hope: true, changed: make(chan struct{})})
	p.names.init(p)
	if cfg.Resolver == nil {
		p.apply(cfg.Servers, nil)
	} else {
		p.names.resolve()
	}
	return p, nil
}

// Call is CallWith without options and with a response in memory of its own.
func (p *Pool) Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error) {
	return p.CallWith(ctx, CallOptions{}, nil, reqType, request)
}

// CallWith sends request to the handler for reqType of a ready server and returns its response,
// appended to buf. Errors are those of Client.Call, and ErrNoServer. A call that may have run is
// never repeated. One that found its server gone before anything was sent chooses again, and so
// does one that its server had not taken when it ended the session.
func (p *Pool) CallWith(
	ctx context.Context, o CallOptions, buf []byte, reqType uint8, request []byte,
) ([]byte, error) {
	var asked []*member
	var refusal error
	for {
		m, untried, err := p.choose(ctx, &o, asked)
		if err != nil {
			if refusal != nil && errors.Is(err, ErrNoServer) {
				err = fmt.Errorf("%w: %w", err, refusal)
			}
			return buf, unsent(err)
		}
		m.inFlight.Add(1)
		resp, err := m.c.call(ctx, buf, reqType, request, o.Repeat && untried)
		m.inFlight.Add(-1)
		switch {
		case err == nil:
			return resp, nil
		case err == errNotSent:
		case o.Repeat && neverRan(err):
			refusal = err
			if untried {
				asked = append(asked, m)
			}
		default:
			return buf, err
		}
	}
}

// neverRan reports whether a call that a server has refused may be repeated at another one.
func neverRan(err error) bool {
	if err == ErrDraining {
		return true
	}
	r, remote := err.(*Error)
	return remote && r.NotRun && (r.Reason == ReasonShutdown || r.Reason == ReasonExhausted)
}

// choose returns a server that is ready, one that was not asked if there is such a one: untried
// reports that. It waits if the options say so.
func (p *Pool) choose(
	ctx context.Context, o *CallOptions, asked []*member,
) (m *member, untried bool, err error) {
	for {
		r := p.roster.Load()
		if p.closed.Load() {
			return nil, false, ErrClosed
		}
		if r.local > 0 || len(r.spares) > 0 {
			m, untried = p.pickOf(r, asked)
			return m, untried, nil
		}
		if !o.WaitForReady && !r.hope {
			return nil, false, p.noServer()
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, false, contextError(ctx)
		}
	}
}

// noServer returns ErrNoServer, with the reason why a server failed last.
func (p *Pool) noServer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return ErrNoServer
	}
	return fmt.Errorf("%w: %w", ErrNoServer, unsent(p.failure))
}

// pickOf chooses a preferred server or a spare one, and of the other kind if all of that were
// asked.
func (p *Pool) pickOf(r *roster, asked []*member) (m *member, untried bool) {
	turn := p.turn.Add(1)
	first, second := r.ready, r.spares
	if turn*spread&255 >= r.local {
		first, second = second, first
	}
	if m, untried = p.pick(turn, first, asked); !untried && len(second) > 0 {
		m, untried = p.pick(turn, second, asked)
	}
	return m, untried
}

// spread is odd: of 256 turns those that go to the spares are spread evenly.
const spread = 157

// pick chooses one of the ready servers.
func (p *Pool) pick(turn uint64, ready, asked []*member) (best *member, untried bool) {
	n := uint64(len(ready))
	compare := n
	if p.cfg.Choice == LeastLoaded && len(asked) == 0 {
		compare = min(n, maxCompared)
	}
	fewest := int64(0)
	for i := range compare {
		m := ready[(turn+i)%n]
		if len(asked) > 0 && wasAsked(asked, m) {
			continue
		}
		if p.cfg.Choice == RoundRobin {
			return m, true
		}
		if load := m.inFlight.Load(); best == nil || load < fewest {
			best, fewest = m, load
		}
	}
	if best == nil {
		return ready[turn%n], false
	}
	return best, true
}

func wasAsked(asked []*member, m *member) bool {
	for _, a := range asked {
		if a.text == m.text { // by another path, or by this one
			return true
		}
	}
	return false
}

// Ready waits until a server is ready or ctx ends. Errors: ErrClosed, the context's.
func (p *Pool) Ready(ctx context.Context) error {
	_, _, err := p.choose(ctx, &CallOptions{WaitForReady: true}, nil)
	return err
}

// Servers returns the state of each server, with Paths once for each path.
func (p *Pool) Servers() []ServerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]ServerStatus, len(p.members))
	for i, m := range p.members {
		list[i] = ServerStatus{m.text, m.shown, int(m.inFlight.Load()), m.shownErr}
	}
	return list
}

// Close ends all sessions with the servers. Calls under way end with ErrClosed. It must not be
// called in a loop, by OnSession.
func (p *Pool) Close() error {
	p.closed.Store(true)
	p.names.stop()
	p.mu.Lock()
	members := p.members
	for m := range p.leaving {
		members = append(members, m)
	}
	p.members, p.leaving = nil, make(map[*member]struct{})
	p.rebuild()
	p.mu.Unlock()
	for _, m := range members {
		if !m.c.closed.Swap(true) {
			_ = m.c.rpc.Post(func(*Rpc) { m.c.finish() }) // in vain only if the loop has ended
		}
	}
	for _, m := range members {
		select {
		case <-m.c.done:
		case <-m.c.loop.done:
		}
	}
	return nil
}

// show takes a server's new state. It runs in the server's loop.
func (p *Pool) show(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shown, hope := m.shown, m.hope
	m.shown, m.shownErr = m.state, m.err
	m.ejected = m.silent != 0
	m.hope = m.state == ServerConnecting || m.state == ServerEjected && m.ejected
	if m.err != nil {
		p.failure = m.err
	}
	if m.state == serverGone {
		p.remove(m)
	}
	if m.c.over {
		delete(p.leaving, m)
	}
	if p.closed.Load() {
		return
	}
	if m.shown != shown || m.hope != hope { // else callers would see the same
		p.rebuild()
	}
	if m.state != ServerReady && m.state != serverGone && m.state != ServerConnecting {
		p.names.hurry()
	}
}

// mayEject lets a server be ejected for its silence, if no more than half of those with a session
// are then. It runs in the server's loop.
func (p *Pool) mayEject(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	open, silent := 0, 1
	for _, o := range p.members {
		if o.shown == ServerReady || o.ejected {
			open++
		}
		if o.ejected {
			silent++
		}
	}
	m.ejected = 2*silent <= open
	return m.ejected
}

// remove takes a server out of the members. It holds mu.
func (p *Pool) remove(m *member) {
	for i := range p.members {
		if p.members[i] == m {
			p.members = append(p.members[:i:i], p.members[i+1:]...)
			return
		}
	}
}

// rebuild replaces the roster. It holds mu.
func (p *Pool) rebuild() {
	r := &roster{changed: make(chan struct{})}
	r.hope = len(p.members) == 0 && p.names.first && !p.closed.Load()
	preferred := 0
	for _, m := range p.members {
		switch {
		case m.shown != ServerReady:
		case m.spare:
			r.spares = append(r.spares, m)
		default:
			r.ready = append(r.ready, m)
		}
		if !m.spare && m.shown != ServerConnecting {
			preferred++
		}
		r.hope = r.hope || m.hope
	}
	switch {
	case len(r.ready) == 0:
	case len(r.spares) == 0:
		r.local = 256
	default:
		r.local = uint64(min(256, 256*7*len(r.ready)/(5*preferred)))
	}
	close(p.roster.Swap(r).changed)
}

// minResolve is the least time between two calls of a Pool's Resolver.
const minResolve = time.Second

// naming asks a Pool's Resolver for its servers. The first Loop has the time; the Resolver runs in
// a goroutine of its own, of which there is one at most.
type naming struct {
	pool   *Pool
	ctx    context.Context
	cancel context.CancelFunc
	first  bool // there was no answer yet; under pool.mu
	busy   atomic.Bool
	urgent atomic.Bool // a server has failed, and the loop has not heard of it

	// In the loop only.
	alarm      loopAlarm
	resolvedAt monotime.Time // when it was asked last
	again      bool          // a server has failed since
}

func (n *naming) init(p *Pool) {
	n.pool, n.first = p, p.cfg.Resolver != nil
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.alarm.fn = n.resolve
}

// resolve calls the Resolver, if it is not at work, and then has it called again in time.
func (n *naming) resolve() {
	if n.ctx.Err() != nil || n.busy.Swap(true) {
		return
	}
	go func() {
		servers, err := n.pool.cfg.Resolver(n.ctx)
		if err == nil && len(servers) == 0 {
			err = errors.New("the resolver knows no servers")
		}
		if err == nil {
			n.pool.apply(servers, nil)
		} else {
			n.pool.unnamed(fmt.Errorf("%w: %w", ErrResolve, err))
		}
		n.busy.Store(false)
		wait := n.pool.cfg.ResolveEvery
		if err != nil {
			wait = minResolve
		}
		n.post(func() {
			n.resolvedAt = n.pool.loops[0].rpc.readClock()
			if n.again {
				n.again, wait = false, minResolve
			}
			n.after(wait)
		})
	}()
}

// after has the Resolver called after a while, or earlier if that was agreed on.
func (n *naming) after(d time.Duration) {
	at := n.resolvedAt.Add(d)
	if n.ctx.Err() == nil && (n.alarm.place == 0 || at < n.alarm.at) {
		n.pool.loops[0].set(&n.alarm, at)
	}
}

// hurry has the Resolver called soon: a server has failed. It is safe in any loop.
func (n *naming) hurry() {
	if n.pool.cfg.Resolver == nil || n.urgent.Swap(true) {
		return
	}
	go n.post(func() { // a loop does not wait for room in its own line of commands
		n.urgent.Store(false)
		if n.again = n.busy.Load(); !n.again {
			n.after(minResolve)
		}
	})
}

// post has fn run in the first Loop, in vain if that has ended.
func (n *naming) post(fn func()) {
	_ = n.pool.loops[0].rpc.Post(func(*Rpc) { fn() })
}

// stop ends it. A Resolver at work is not waited for.
func (n *naming) stop() {
	n.cancel()
	n.post(func() { n.pool.loops[0].set(&n.alarm, monotime.Never) })
}

// unnamed notes that the Resolver had no answer.
func (p *Pool) unnamed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.first = false
	p.failure = err
	if !p.closed.Load() {
		p.rebuild()
	}
}

// SetServers replaces the servers of a Pool without a Resolver: new ones join, and those that are
// in neither list leave when their calls have ended. Preferred servers get all calls as long as
// five sevenths of them are ready. Of fewer, each gets at most 1.4 times its part of all calls; the
// rest goes to the spares, to which sessions are open too. Spares that are preferred as well are
// preferred. Errors: a *ConfigError without a preferred server or with a Resolver, ErrClosed.
func (p *Pool) SetServers(preferred, spares []string) error {
	switch {
	case p.cfg.Resolver != nil:
		return &ConfigError{"Resolver", "has the servers of this Pool"}
	case len(preferred) == 0:
		return &ConfigError{"Servers", "are missing: a Pool has one or more"}
	case p.closed.Load():
		return ErrClosed
	}
	p.apply(preferred, spares)
	return nil
}

// apply makes the servers those of two lists: new ones join, and those that are in neither leave
// when their calls have ended.
func (p *Pool) apply(preferred, spares []string) {
	p.mu.Lock()
	if p.closed.Load() {
		p.mu.Unlock()
		return
	}
	p.names.first = false
	have := make(map[string][]*member) // by the server, one for each path
	load := make(map[*Loop]int)
	for _, m := range p.members {
		have[m.text] = append(have[m.text], m)
		load[m.c.loop]++
	}
	var fresh, gone []*member
	for i, text := range slices.Concat(preferred, spares) {
		list, known := have[text]
		if !known {
			list = p.newMembers(text, load)
			fresh = append(fresh, list...)
			p.members = append(p.members, list...)
		}
		for _, m := range list {
			m.spare = i >= len(preferred)
		}
		have[text] = nil // it stays
	}
	stay := make([]*member, 0, len(p.members))
	for _, m := range p.members {
		if have[m.text] == nil {
			stay = append(stay, m)
		} else {
			p.leaving[m] = struct{}{}
			gone = append(gone, m)
		}
	}
	p.members = stay
	p.rebuild()
	p.mu.Unlock()
	// A loop may wait for the mutex, so it is not held while there is to be room for commands.
	for _, m := range fresh {
		_ = m.c.rpc.Post(func(*Rpc) { m.join() })
	}
	for _, m := range gone {
		_ = m.c.rpc.Post(func(*Rpc) { m.leave() })
	}
}

// newMembers makes a server, with a member for each path, in the loops that have the fewest.
func (p *Pool) newMembers(text string, load map[*Loop]int) (list []*member) {
	loops := slices.Clone(p.loops)
	slices.SortStableFunc(loops, func(a, b *Loop) int { return cmp.Compare(load[a], load[b]) })
	for _, l := range loops[:p.cfg.Paths] {
		load[l]++
		list = append(list, p.newMember(text, l))
	}
	return list
}

// newMember makes a member for a server in a loop.
func (p *Pool) newMember(text string, l *Loop) *member {
	m := &member{owner: p, c: l.newClient(text), text: text, hope: true}
	m.c.member = m
	m.c.redial.dialed, m.c.redial.unknown = true, true
	return m
}

const (
	// A silent server is asked for a sign of life after Timing.RTOMin, then less and less often.
	maxListen = 250 * time.Millisecond
	// A server that could not be reached is tried again after redialAfter, then less and less often.
	maxRedial = time.Second
)

// errNotSent ends a call that came to a Client of a Pool when its server took none. Nothing was
// sent, and the Pool chooses again.
var errNotSent = engine.NotRun("not sent")

// errSilent is why a silent server gets no calls.
var errSilent = fmt.Errorf("%w: it owes answers and is silent", ErrPeerLost)

// member is a server of a Pool: a Client that is never asked to connect, but keeps a session open
// by itself, and tells the Pool when it takes calls. Only a Pool calls its Client. The fields of
// the loop describe the server; update derives its state from them and shows it in the fields under
// the Pool's mutex.
type member struct {
	owner    owner
	once     bool // it keeps no session open: the first one that is lost is the last
	c        *Client
	text     string
	inFlight atomic.Int64 // calls that chose it and have not ended

	// In the Client's loop only.
	state    ServerState
	err      error         // why it failed last
	drains   bool          // it has said that it shuts down
	lost     bool          // it had a session, and has none
	failed   bool          // it could not be reached
	leaving  bool          // the Pool wants no more of it; it ends when it has no calls
	news     bool          // err has changed
	silent   monotime.Time // since when it gets no calls for its silence; 0: it is not silent
	probeAt  monotime.Time // when it is asked again for a sign of life
	probeFor time.Duration
	retryFor time.Duration
	// While it is silent, and may still get calls.
	quietAt   monotime.Time // since when
	quietRan  time.Duration // what Engine.Ran was then
	quietLast time.Duration // and at the last look

	// Under the mutex of the Pool.
	shown    ServerState
	shownErr error
	spare    bool // it gets calls when too few of the others are ready
	hope     bool // calls may wait for it, as they do for no other server that has failed
	ejected  bool // for its silence
}

// owner chooses between members: a Pool, or a balancer by a Watcher. It is told in a member's loop.
type owner interface {
	show(m *member)          // the state has changed
	mayEject(m *member) bool // it is silent: are calls to go elsewhere?
}

// join begins to keep a session open. It runs in the loop.
func (m *member) join() {
	if m.c.loop.join(m.c) {
		m.redial()
	}
	m.update()
}

// judge derives the state of the server.
func (m *member) judge() ServerState {
	c := m.c
	switch {
	case c.over || m.leaving:
		return serverGone
	case m.drains:
		return ServerDraining
	case m.silent != 0:
		return ServerEjected
	case len(c.all) > c.connecting:
		return ServerReady
	case m.lost:
		return ServerEjected
	case m.failed:
		return ServerFailing
	}
	return ServerConnecting
}

// update tells the Pool the state if it has changed. Calls that wait here go to other servers then,
// and if there is no session the next one is opened.
func (m *member) update() {
	before := m.state
	c := m.c
	if m.state = m.judge(); m.state != before || m.news || c.over {
		m.news = false
		m.owner.show(m)
	}
	if m.state != ServerReady {
		c.holding = false
		m.sendAway()
	}
	if m.once && (m.lost || m.failed) {
		m.giveUp()
	}
	if len(c.all) == 0 && !m.once && !c.redial.awaiting &&
		m.state != serverGone && c.alarms.redial == 0 {
		c.alarms.redial = c.rpc.readClock().Add(m.retryFor)
		c.arm()
	}
}

// giveUp ends what waits for a session, and the sessions that are being opened.
func (m *member) giveUp() {
	c := m.c
	for _, w := range c.waiting {
		w <- m.away()
	}
	c.waiting = c.waiting[:0]
	for len(c.all) > 0 {
		l := c.all[0]
		c.detach(l)
		c.rpc.drop(l.s)
	}
}

// sendAway ends the calls that wait for a slot, as those that were not sent. Those of Start are for
// this server alone, and wait on as long as it has a session.
func (m *member) sendAway() {
	for _, q := range [...]*callQueue{&m.c.queue, &m.c.large} {
		for k := q.first; k != nil; {
			next := k.next
			if k.done == nil || m.silent == 0 {
				q.remove(k)
				if k.refusal != nil {
					k.end(k.refusal)
				} else {
					k.end(m.away())
				}
			}
			k = next
		}
	}
}

// away returns the error of a call that is not sent while the server takes none.
func (m *member) away() error {
	switch {
	case !m.once:
		return errNotSent
	case m.c.over || m.err == nil:
		return unsent(ErrClosed)
	}
	return unsent(m.err)
}

// redial opens a session if there is none. It follows an alarm, which also ends the Client of a
// server that leaves.
func (m *member) redial() {
	c := m.c
	switch {
	case c.over:
	case m.leaving:
		if c.calls == 0 {
			c.closed.Store(true)
			c.finish()
		}
	case len(c.all) == 0 && !c.redial.awaiting:
		if err := c.want(); err != nil {
			m.fail(err)
		}
	}
}

// opened takes a session that has been opened.
func (m *member) opened() {
	m.drains, m.lost, m.failed, m.silent, m.err = false, false, false, 0, nil
	m.retryFor = 0
	m.update()
}

// onSession follows the end of a session, of which the Client knows already.
func (m *member) onSession(l *clientSession, ev SessionEvent) {
	c := m.c
	switch ev {
	case SessionDraining:
		m.drain()
		return
	case SessionRefused:
		m.fail(l.s.Err())
		return
	}
	if len(c.all) == c.connecting && ev != SessionClosed {
		m.lost, m.silent = true, 0
		m.err = l.s.Err()
	}
	m.update()
}

// drain notes that the server shuts down.
func (m *member) drain() {
	if !m.drains {
		m.drains, m.lost, m.silent, m.err = true, true, 0, ErrDraining
		m.retireAll()
		m.update()
	}
}

// retireAll gives the sessions that are open no more calls.
func (m *member) retireAll() {
	for _, l := range slices.Clone(m.c.all) {
		if l.slots > 0 {
			m.c.retire(l)
		}
	}
}

// fail notes that the server could not be reached.
func (m *member) fail(err error) {
	if errors.Is(err, ErrConnect) || errors.Is(err, ErrResolve) {
		m.drains = false // it has ended
	}
	m.failed, m.err, m.news = true, err, true
	m.retryFor = min(max(2*m.retryFor, redialAfter), maxRedial)
	m.update()
}

// emptied follows the last call of the Client.
func (m *member) emptied() {
	if m.leaving {
		m.leave()
	}
}

// leave makes the Client end as soon as it has no calls.
func (m *member) leave() {
	m.leaving = true
	if m.update(); m.c.calls == 0 && !m.c.over {
		m.c.alarms.redial = m.c.rpc.readClock() // not now: a continuation may be at work
		m.c.arm()
	}
}

// quiet follows an epoch in which the server of a session has owed answers in silence for a while.
// If that goes on until the session's patience ends it gets no more calls, unless too many are
// silent: then it is asked about again in the next epoch. Time in which this loop did not run does
// not count.
func (m *member) quiet(l *clientSession) {
	e := &m.c.rpc.engine
	if m.silent != 0 || m.c.over || m.state != ServerReady {
		return
	}
	patience, ran, heard := e.Patience(&l.s.conn), e.Ran(), m.heard()
	if ran-m.quietLast > patience/2 || heard >= m.quietAt {
		m.quietAt, m.quietRan = e.Now(), ran
	}
	m.quietLast = ran
	switch {
	case e.Now().Sub(heard) < patience/4: // by another loop of the server
	case ran-m.quietRan < patience*3/4: // the first quarter is over
	case m.owner.mayEject(m):
		m.onSilence()
	}
}

// heard returns when something was heard of the server last.
func (m *member) heard() (last monotime.Time) {
	for _, list := range [...][]*clientSession{m.c.all, m.c.retired} {
		for _, l := range list {
			if at, open := l.s.conn.LastHeard(); open {
				last = max(last, at)
			}
		}
	}
	return last
}

// onSilence stops the calls to a silent server.
func (m *member) onSilence() {
	now := m.c.rpc.readClock()
	m.silent, m.probeAt, m.probeFor = now, now, m.c.rpc.cfg.Timing.RTOMin
	m.err = errSilent
	m.update()
	m.listen()
}

// listen asks a silent server for a sign of life, until there is one or its sessions end. It
// follows an alarm.
func (m *member) listen() {
	c := m.c
	if m.silent == 0 {
		return
	}
	now := c.rpc.readClock()
	for _, list := range [...][]*clientSession{c.all, c.retired} {
		for _, l := range list {
			switch heard, open := l.s.conn.LastHeard(); {
			case !open || !l.s.Connected():
			case heard > m.silent:
				m.silent, m.err = 0, nil
				m.update()
				return
			case now >= m.probeAt:
				c.rpc.engine.Probe(&l.s.conn, now)
				m.probeAt = now.Add(m.probeFor)
				m.probeFor = min(2*m.probeFor, maxListen)
			}
		}
	}
	c.alarms.listen = now.Add(c.rpc.cfg.Timing.RTOMin)
	c.arm()
}
