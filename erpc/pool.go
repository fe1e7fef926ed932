package erpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoServer means that no server of a Pool takes calls. The call was not sent: the error matches
// ErrNotRun. Errors with ErrNoServer also match the reason why a server failed last.
var ErrNoServer = notRun("no server takes calls, request not sent")

// Pool calls several servers that do the same, from any number of goroutines. Each call goes to one
// server that is ready.
//
// The Pool owns a Client per server, and nothing else: the Loops are the caller's, and may have
// other Clients. A server's state belongs to its Client's loop, which tells the Pool when it
// changes. Callers choose from a list that is replaced then, without a lock.
//
// A server is ejected, and gets no more calls, when its sessions are lost (an unreachable port is
// noticed within milliseconds), and when it has owed answers in silence for four retransmission
// timeouts. A silent one returns when it is heard again, a lost one when a new session is open; the
// Pool asks for both by itself. Calls under way to it go on until they end by themselves.
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
	ready   []*member
	hope    bool          // a server may be ready soon
	changed chan struct{} // closed when there is a newer roster
	err     error         // why a server failed last
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
	case cfg.Choice > LeastLoaded:
		return nil, &ConfigError{"Choice",
			fmt.Sprintf("is %d, must be at most LeastLoaded", cfg.Choice)}
	}
	if cfg.ResolveEvery == 0 {
		cfg.ResolveEvery = 30 * time.Second
	}
	cfg.ResolveEvery = max(cfg.ResolveEvery, minResolve)
	for _, l := range loops {
		if l.closed.Load() {
			return nil, ErrClosed
		}
	}
	p := &Pool{cfg: cfg, loops: loops, leaving: make(map[*member]struct{})}
	p.roster.Store(&roster{hope: true, changed: make(chan struct{})})
	p.names.init(p)
	if cfg.Resolver == nil {
		p.apply(cfg.Servers)
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
		if len(r.ready) > 0 {
			m, untried = p.pick(r.ready, asked)
			return m, untried, nil
		}
		if !o.WaitForReady && !r.hope {
			if r.err == nil {
				return nil, false, ErrNoServer
			}
			return nil, false, fmt.Errorf("%w: %w", ErrNoServer, r.err)
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, false, contextError(ctx)
		}
	}
}

// pick chooses one of the ready servers.
func (p *Pool) pick(ready, asked []*member) (best *member, untried bool) {
	n := uint64(len(ready))
	turn := p.turn.Add(1)
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
		if a == m {
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

// Servers returns the state of each server.
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
	m.shown, m.shownErr = m.state, m.err
	m.hope = m.state == ServerConnecting || m.state == ServerEjected && m.silent != 0
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
	p.rebuild()
	if m.state != ServerReady && m.state != serverGone && m.state != ServerConnecting {
		p.names.hurry()
	}
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
	r := &roster{changed: make(chan struct{}), err: p.failure}
	r.hope = len(p.members) == 0 && p.names.first && !p.closed.Load()
	for _, m := range p.members {
		if m.shown == ServerReady {
			r.ready = append(r.ready, m)
		}
		r.hope = r.hope || m.hope
	}
	close(p.roster.Swap(r).changed)
}
