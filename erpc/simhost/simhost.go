package simhost

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// ErrConfig is matched by errors about a Config.
var ErrConfig = errors.New("simhost: bad configuration")

// Work describes the call that a handler is about to serve.
type Work struct {
	Type     uint8
	Requests []erpc.ReqHandle // one, or those of a batch handler; valid during the call
}

// Config describes a Process.
type Config struct {
	Net *sim.Network
	// Erpc is the configuration of its Nexus; Simulation is filled in, but for a Seed.
	Erpc erpc.Config
	// Workers run background handlers. Nil: there are none, and their requests are refused.
	Workers *sim.Workers
	// HandOver is the loop's time for giving a request to a worker, and for its answer.
	HandOver time.Duration
	// Cost returns the processor time of a handler. Nil: none.
	Cost func(Work) time.Duration
}

// Process is the simulated process of a service.
type Process struct {
	cfg   Config
	nexus *erpc.Nexus
	loops []*Loop
	byRpc map[*erpc.Rpc]*Loop
	err   error
}

// New makes a process without loops. Errors: those of erpc.NewNexus, ErrConfig.
func New(c Config) (*Process, error) {
	if c.Net == nil || c.HandOver < 0 {
		return nil, fmt.Errorf("%w: Net is nil, or HandOver is negative: %v", ErrConfig, c.HandOver)
	}
	p := &Process{cfg: c, byRpc: map[*erpc.Rpc]*Loop{}}
	s := &c.Erpc.Simulation
	s.Clock, s.Executor = c.Net.Now, executor{p}
	if s.Seed == 0 {
		s.Seed = c.Net.Rand().Uint64() | 1
	}
	var err error
	p.nexus, err = erpc.NewNexus(c.Erpc)
	return p, err
}

// Nexus returns the process's Nexus. Handlers that are registered with it take no time.
func (p *Process) Nexus() *erpc.Nexus { return p.nexus }

// Err returns the first error that a loop ran into, or nil.
func (p *Process) Err() error { return p.err }

// Register is erpc.Nexus.Register for a handler that takes time.
func (p *Process) Register(typ uint8, mode erpc.Mode, fn erpc.Handler) error {
	if fn == nil {
		return p.nexus.Register(typ, mode, nil) // its error
	}
	return p.nexus.Register(typ, mode, func(h erpc.ReqHandle) {
		one := [1]erpc.ReqHandle{h}
		p.charge(typ, one[:])
		if mode == erpc.Dispatch {
			fn(h)
			return
		}
		p.cfg.Net.Then(func() {
			fn(h)
			p.wake(h)
		})
	})
}

// RegisterBatch is erpc.Nexus.RegisterBatch for a handler that takes time.
func (p *Process) RegisterBatch(typ uint8, fn erpc.BatchHandler) error {
	if fn == nil {
		return p.nexus.RegisterBatch(typ, nil)
	}
	return p.nexus.RegisterBatch(typ, func(reqs []erpc.ReqHandle) {
		p.charge(typ, reqs)
		fn(reqs)
	})
}

func (p *Process) charge(typ uint8, reqs []erpc.ReqHandle) {
	if p.cfg.Cost != nil {
		p.cfg.Net.Charge(p.cfg.Cost(Work{typ, reqs}))
	}
}

// wake has the loop of a request look for the answer that a worker gave.
func (p *Process) wake(h erpc.ReqHandle) {
	if l := p.byRpc[h.Rpc()]; l != nil {
		l.ep.Charge(p.cfg.HandOver)
		l.ep.Wake()
	}
}

// executor runs background handlers in the workers of a process.
type executor struct{ p *Process }

func (x executor) Submit(t erpc.Task) bool {
	c := &x.p.cfg
	if c.Workers == nil {
		return false
	}
	c.Net.Charge(c.HandOver)
	return c.Workers.Submit(t.Run)
}

// Loop is an Rpc with its event loop, on an endpoint of its own.
type Loop struct {
	p    *Process
	ep   *sim.Endpoint
	rpc  *erpc.Rpc
	todo []func()

	// After is called after each pass. If it returns true there may be packets to send, and a second
	// pass follows.
	After func() bool
	// Next returns when After wants to be called next; nil is never.
	Next func() sim.Time
}

// Loop adds a loop on an endpoint, which it makes. Errors: those of sim.Network.NewEndpoint and
// erpc.Nexus.NewRpc.
func (p *Process) Loop(c sim.EndpointConfig) (*Loop, error) {
	ep, err := p.cfg.Net.NewEndpoint(c)
	if err != nil {
		return nil, err
	}
	l := &Loop{p: p, ep: ep}
	if l.rpc, err = p.nexus.NewRpc(ep); err != nil {
		ep.Crash()
		return nil, err
	}
	p.loops = append(p.loops, l)
	p.byRpc[l.rpc] = l
	p.cfg.Net.Attach(ep, l)
	return l, nil
}

// Rpc returns the Rpc. It may be used in callbacks, and in functions given to Do.
func (l *Loop) Rpc() *erpc.Rpc { return l.rpc }

// Endpoint returns the endpoint.
func (l *Loop) Endpoint() *sim.Endpoint { return l.ep }

// Do calls f in the loop's next pass, and has the loop make one.
func (l *Loop) Do(f func()) {
	l.todo = append(l.todo, f)
	l.ep.Wake()
}

// RunOnce implements sim.Driver.
func (l *Loop) RunOnce() {
	todo := l.todo
	l.todo = nil
	for _, f := range todo {
		f()
	}
	l.pass()
	if l.After != nil && l.After() {
		l.pass()
	}
}

func (l *Loop) pass() {
	_, err := l.rpc.RunOnce()
	over := errors.Is(err, transport.ErrClosed) || errors.Is(err, erpc.ErrClosed)
	if err != nil && !over && l.p.err == nil {
		l.p.err = fmt.Errorf("%s: %w", l.ep.Name(), err)
	}
}

// NextWake implements sim.Driver.
func (l *Loop) NextWake() sim.Time {
	t := l.rpc.NextWake()
	if l.Next != nil {
		t = min(t, l.Next())
	}
	return t
}

// Crash ends the process as kill -9 would, and frees what it held.
func (p *Process) Crash() {
	for _, l := range p.loops {
		l.ep.Crash()
	}
	for _, l := range p.loops {
		_ = l.rpc.Close() // requests under way concern nobody any more
	}
	_ = p.nexus.Close()
}
