package grpcerpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/leastrequest" // registers least loaded
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/userspace-rpc/erpc/erpc"
)

// errSilent is why a silent server gets no calls.
var errSilent = fmt.Errorf("%w: it owes answers and is silent", erpc.ErrPeerLost)

// defaultBalancer is gRPC's.
const defaultBalancer = "pick_first"

// resolverConn is the resolver.ClientConn of a ClientConn.
type resolverConn struct {
	resolver.ClientConn // nil: grpc may add methods
	cc                  *ClientConn
}

// UpdateState gives addresses to the balancer, and waits for its opinion.
func (r resolverConn) UpdateState(s resolver.State) error {
	result := make(chan error, 1)
	if !r.cc.serial.do(func() { result <- r.cc.update(s) }) {
		return errClosing
	}
	return <-result
}

// ReportError tells the balancer that names cannot be resolved.
func (r resolverConn) ReportError(err error) {
	r.cc.serial.do(func() { r.cc.needBalancer(nil).ResolverError(err) })
}

// NewAddress is the older form of UpdateState.
func (r resolverConn) NewAddress(list []resolver.Address) {
	_ = r.UpdateState(resolver.State{Addresses: list})
}

// ParseServiceConfig reads a service config.
func (r resolverConn) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	c, err := parseServiceConfig(text)
	if err != nil {
		return &serviceconfig.ParseResult{Err: err}
	}
	return &serviceconfig.ParseResult{Config: c}
}

// update takes what a resolver says, in cc.serial.
func (cc *ClientConn) update(s resolver.State) error {
	if len(s.Endpoints) == 0 {
		for _, a := range s.Addresses {
			e := resolver.Endpoint{Addresses: []resolver.Address{a}}
			e.Attributes = a.BalancerAttributes //lint:ignore SA1019 as grpc does, for older resolvers
			s.Endpoints = append(s.Endpoints, e)
		}
	} else if len(s.Addresses) == 0 {
		for _, e := range s.Endpoints {
			s.Addresses = append(s.Addresses, e.Addresses...)
		}
	}
	cc.servers.Store(int64(len(s.Addresses)))
	config := cc.defaultConfig
	if r := s.ServiceConfig; r != nil && !cc.opts.noService {
		if c, ok := r.Config.(*serviceConfig); ok && r.Err == nil {
			config = c
		}
	}
	cc.config.Store(config)
	b := cc.needBalancer(config)
	state := balancer.ClientConnState{ResolverState: s}
	if config != nil {
		state.BalancerConfig = config.balancerConfig
	}
	return b.UpdateClientConnState(state)
}

// needBalancer returns the balancer that a service config asks for, in cc.serial.
func (cc *ClientConn) needBalancer(config *serviceConfig) balancer.Balancer {
	name := defaultBalancer
	if config != nil && config.balancer != "" && balancer.Get(config.balancer) != nil {
		name = config.balancer
	}
	if cc.balancer != nil && (config == nil || name == cc.balancerName) {
		return cc.balancer
	}
	if cc.balancer != nil {
		cc.balancer.Close()
		cc.shutDown()
	}
	cc.balancerName = name
	cc.balancer = balancer.Get(name).Build(&balancerConn{cc: cc}, balancer.BuildOptions{
		Authority: cc.authority, CustomUserAgent: cc.opts.userAgent, Target: cc.parsed,
		DialCreds: cc.credsOverTCP(), ChannelzParent: grpcOptions().ChannelzParent,
	})
	return cc.balancer
}

// shutDown ends all connections, in cc.serial.
func (cc *ClientConn) shutDown() {
	for _, sc := range slices.Clone(cc.subConns) {
		sc.Shutdown()
	}
}

// balancerConn is the balancer.ClientConn of a ClientConn.
type balancerConn struct {
	balancer.ClientConn // nil: grpc may add methods
	cc                  *ClientConn
}

// NewSubConn makes a connection that is not opened.
func (b *balancerConn) NewSubConn(
	list []resolver.Address, opts balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	sc := &subConn{cc: b.cc, addrs: list, tell: opts.StateListener, state: connectivity.Idle}
	if sc.tell == nil {
		sc.tell = func(s balancer.SubConnState) {
			b.cc.balancer.UpdateSubConnState(sc, s) //lint:ignore SA1019 for older balancers
		}
	}
	b.cc.mu.Lock()
	defer b.cc.mu.Unlock()
	if b.cc.closed {
		return nil, errClosing
	}
	b.cc.subConns = append(b.cc.subConns, sc)
	return sc, nil
}

// RemoveSubConn is SubConn.Shutdown.
func (b *balancerConn) RemoveSubConn(sc balancer.SubConn) { sc.Shutdown() }

// UpdateAddresses is SubConn.UpdateAddresses.
func (b *balancerConn) UpdateAddresses(sc balancer.SubConn, list []resolver.Address) {
	sc.UpdateAddresses(list) //lint:ignore SA1019 for older balancers
}

// UpdateState takes a new picker.
func (b *balancerConn) UpdateState(s balancer.State) { b.cc.setPicker(s) }

// ResolveNow asks the resolver for names again.
func (b *balancerConn) ResolveNow(o resolver.ResolveNowOptions) {
	b.cc.background(func() {
		b.cc.mu.Lock()
		r := b.cc.resolver
		b.cc.mu.Unlock()
		if r != nil {
			r.ResolveNow(o)
		}
	})
}

// Target returns the target of the ClientConn.
func (b *balancerConn) Target() string { return b.cc.target }

// MetricsRecorder records nothing.
func (b *balancerConn) MetricsRecorder() estats.MetricsRecorder { return noMetrics }

// noMetrics takes what balancers and resolvers measure.
var noMetrics = &estats.UnimplementedMetricsRecorder{}

// subConn is a connection to the first of its addresses that answers.
type subConn struct {
	balancer.SubConn // nil: grpc may add methods
	cc               *ClientConn
	tell             func(balancer.SubConnState)

	mu       sync.Mutex
	addrs    []resolver.Address
	state    connectivity.State
	link     *link // while it is ready
	cancel   context.CancelFunc
	timer    *time.Timer // until the next try
	failures int
	told     connectivity.State // what the balancer knows
	health   int                // number of the health listener
	healthy  func(balancer.SubConnState)
	hushed   bool  // the link is there, but its server is silent
	quiet    *link // in place of link: its server is silent, and calls go to others

	producing sync.Mutex
	producers map[balancer.ProducerBuilder]*producer
}

// String names the connection in what balancers log.
func (sc *subConn) String() string { return fmt.Sprintf("SubConn(%p)", sc) }

// set changes the state and tells the balancer. The lock is held.
func (sc *subConn) set(state connectivity.State, err error) {
	if sc.state == state || sc.state == connectivity.Shutdown {
		return
	}
	sc.state = state
	sc.cc.serial.do(func() {
		sc.closeProducers()
		sc.mu.Lock()
		sc.told = state
		sc.health++ // a listener is of the state that it was registered in
		sc.healthy, sc.hushed = nil, false
		sc.mu.Unlock()
		sc.tell(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
	})
}

// Connect begins to connect, if the connection is idle.
func (sc *subConn) Connect() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.state != connectivity.Idle {
		return
	}
	if l := sc.quiet; l != nil { // it was heard again
		sc.link, sc.quiet = l, nil
		sc.set(connectivity.Connecting, nil)
		sc.set(connectivity.Ready, nil)
		return
	}
	var ctx context.Context
	ctx, sc.cancel = context.WithCancel(sc.cc.ctx)
	sc.set(connectivity.Connecting, nil)
	addrs := sc.addrs
	cancel := sc.cancel
	if !sc.cc.background(func() {
		defer cancel()
		sc.connect(ctx, addrs)
	}) {
		cancel()
	}
}

// connect tries the addresses in turn.
func (sc *subConn) connect(ctx context.Context, addrs []resolver.Address) {
	var l *link
	err := error(errNoAddress)
	for _, a := range addrs {
		var opened *link
		ended := func() { sc.lost(opened) }
		ready := make(chan struct{})
		opened, err = sc.cc.openLink(ctx, sc, a.Addr, func() {
			sc.cc.background(func() { <-ready; ended() })
		})
		close(ready)
		if l = opened; err == nil || ctx.Err() != nil {
			break
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	switch {
	case sc.state != connectivity.Connecting || ctx.Err() != nil: // nobody wants it any more
		if l != nil {
			l.retire()
		}
	case err != nil:
		sc.set(connectivity.TransientFailure, err)
		sc.timer = time.AfterFunc(sc.pause(), sc.rest)
		sc.failures++
	default:
		sc.link, sc.failures = l, 0
		sc.set(connectivity.Ready, nil)
		if !l.alive() {
			sc.link = nil
			sc.set(connectivity.Idle, nil)
		}
	}
}

// pause returns how long to wait after a failure.
func (sc *subConn) pause() time.Duration {
	b := sc.cc.opts.backoff
	d := float64(b.BaseDelay)
	for range sc.failures {
		if d *= b.Multiplier; d >= float64(b.MaxDelay) {
			d = float64(b.MaxDelay)
			break
		}
	}
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

// rest makes the connection idle after a pause.
func (sc *subConn) rest() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.state == connectivity.TransientFailure {
		sc.set(connectivity.Idle, nil)
	}
}

// lost makes the connection idle when its link has ended.
func (sc *subConn) lost(l *link) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if l != nil && (sc.link == l || sc.quiet == l) {
		sc.link, sc.quiet = nil, nil
		sc.set(connectivity.Idle, nil)
	}
}

// silent keeps calls from a server that owes answers and is silent. A balancer that listens for the
// health of connections hears of it so. For others the connection fails, and is idle when the
// server is heard: then it is there at once. It runs in cc.serial.
func (sc *subConn) silent(l *link) {
	sc.mu.Lock()
	tell := sc.healthy
	switch {
	case sc.link != l:
		tell = nil
	case tell != nil:
		sc.hushed = true
	default:
		sc.link, sc.quiet = nil, l
		sc.set(connectivity.TransientFailure, errSilent)
	}
	sc.mu.Unlock()
	if tell != nil {
		tell(balancer.SubConnState{
			ConnectivityState: connectivity.TransientFailure, ConnectionError: errSilent,
		})
	}
}

// heard follows silent when the server was heard.
func (sc *subConn) heard(l *link) {
	sc.mu.Lock()
	tell := sc.healthy
	switch {
	case sc.quiet == l:
		sc.set(connectivity.Idle, nil)
		tell = nil
	case sc.link != l || !sc.hushed:
		tell = nil
	}
	sc.hushed = false
	sc.mu.Unlock()
	if tell != nil {
		tell(balancer.SubConnState{ConnectivityState: connectivity.Ready})
	}
}

// use returns the link with one call counted in, nil if there is none.
func (sc *subConn) use() *link {
	sc.mu.Lock()
	l, hushed := sc.link, sc.hushed
	sc.mu.Unlock()
	if l == nil || hushed || !l.acquire() {
		return nil
	}
	return l
}

// takeLink returns the link, silent or not, which the connection has no more. The lock is held.
func (sc *subConn) takeLink() *link {
	l := sc.link
	if l == nil {
		l = sc.quiet
	}
	sc.link, sc.quiet = nil, nil
	return l
}

// UpdateAddresses replaces the addresses, and connects to them anew.
func (sc *subConn) UpdateAddresses(list []resolver.Address) {
	sc.mu.Lock()
	sc.addrs = list
	l := sc.takeLink()
	if sc.cancel != nil {
		sc.cancel()
	}
	sc.set(connectivity.Idle, nil)
	sc.mu.Unlock()
	if l != nil {
		l.retire()
	}
	sc.Connect()
}

// Shutdown ends the connection when its calls have ended.
func (sc *subConn) Shutdown() {
	sc.cc.forget(sc)
	sc.closeProducers() // in vain for those that are built later, whose calls fail
	sc.mu.Lock()
	l := sc.takeLink()
	if sc.cancel != nil {
		sc.cancel()
	}
	if sc.timer != nil {
		sc.timer.Stop()
	}
	sc.set(connectivity.Shutdown, nil)
	sc.mu.Unlock()
	if l != nil {
		l.retire()
	}
}
