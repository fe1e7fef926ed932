package grpcerpc

import (
	"slices"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	_ "google.golang.org/grpc/balancer/leastrequest" // registers least loaded
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
)

// defaultBalancer is gRPC's.
const defaultBalancer = "pick_first"

// policy is a load balancing policy of a ClientConn: a balancer, and the connections that it asked
// for. When a service config names another one, that takes the place of the current one as soon as
// it has decided, or the current one has no connection any more (gRFC A27, "graceful switch").
// Calls go by the current policy until then, and what the resolver says goes to the latest.
type policy struct {
	balancer.ClientConn // nil: grpc may add methods
	cc                  *ClientConn
	name                string
	balancer            balancer.Balancer // fixed before the policy is told anything
	state               balancer.State    // what it said last; cc.mu

	bundles  map[credentials.Bundle]*connCreds // of NewSubConn; bundling guards it
	bundling sync.Mutex
}

// policies are the policy that calls go by, and the one that will take its place. Cc.mu guards
// both; they change in cc.serial alone, but that a pending one may take its place anywhere.
type policies struct{ current, pending *policy }

// latest returns the policy that the resolver's results are for, nil if there is none.
func (p *policies) latest() *policy {
	if p.pending != nil {
		return p.pending
	}
	return p.current
}

// close ends both, in cc.serial.
func (p *policies) close() {
	for _, one := range []*policy{p.pending, p.current} {
		if one != nil {
			one.close()
		}
	}
}

// policyOf returns the latest policy after it has become that of a service config, in cc.serial.
func (cc *ClientConn) policyOf(config *serviceConfig) *policy {
	name := defaultBalancer
	if config != nil && config.balancer != "" && balancer.Get(config.balancer) != nil {
		name = config.balancer
	}
	cc.mu.Lock()
	p := cc.policies.latest()
	if p != nil && p.name == name {
		cc.mu.Unlock()
		return p
	}
	p = &policy{cc: cc, name: name, state: balancer.State{ConnectivityState: connectivity.Connecting,
		Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)}}
	left := cc.policies.pending
	if cc.policies.current == nil {
		cc.policies.current = p
	} else {
		cc.policies.pending = p
	}
	cc.mu.Unlock()
	if left != nil {
		left.close()
	}
	p.balancer = balancer.Get(name).Build(p, balancer.BuildOptions{
		Authority: cc.authority, CustomUserAgent: cc.opts.userAgent, Target: cc.parsed,
		DialCreds: cc.credsOverTCP(), CredsBundle: cc.opts.bundle,
		ChannelzParent: grpcOptions().ChannelzParent,
	})
	return p
}

// close ends the balancer and its connections, in cc.serial.
func (p *policy) close() {
	p.balancer.Close()
	p.cc.mu.Lock()
	list := slices.Clone(p.cc.subConns)
	p.cc.mu.Unlock()
	for _, sc := range list {
		if sc.policy == p {
			sc.Shutdown()
		}
	}
}

// UpdateState takes the picker of the current policy, and has a pending one take its place when it
// is time. Those of policies that have left mean nothing.
func (p *policy) UpdateState(s balancer.State) {
	cc := p.cc
	cc.mu.Lock()
	defer cc.mu.Unlock()
	p.state = s
	ready := func(s balancer.State) bool { return s.ConnectivityState == connectivity.Ready }
	switch current, pending := cc.policies.current, cc.policies.pending; {
	case p == current && (pending == nil || ready(s)):
		cc.setPicker(s)
	case p == current,
		p == pending && (s.ConnectivityState != connectivity.Connecting || !ready(current.state)):
		cc.policies = policies{current: pending}
		cc.setPicker(pending.state)
		cc.serial.do(current.close) // in vain when the ClientConn is closed, which closes all
	}
}

// left reports whether the policy has no part in the ClientConn any more. Cc.mu is held.
func (p *policy) left() bool { return p != p.cc.policies.current && p != p.cc.policies.pending }

// NewSubConn makes a connection that is not opened.
func (p *policy) NewSubConn(
	list []resolver.Address, opts balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	creds := p.bundled(opts.CredsBundle) //lint:ignore SA1019 for balancers that have one
	sc := &subConn{cc: p.cc, policy: p, creds: creds, addrs: list, tell: opts.StateListener,
		state: connectivity.Idle, health: health{guards: opts.HealthCheckEnabled}}
	if sc.tell == nil {
		sc.tell = func(s balancer.SubConnState) {
			p.balancer.UpdateSubConnState(sc, s) //lint:ignore SA1019 for older balancers
		}
	}
	p.cc.mu.Lock()
	defer p.cc.mu.Unlock()
	if p.cc.closed || p.left() {
		return nil, errClosing
	}
	p.cc.subConns = append(p.cc.subConns, sc)
	return sc, nil
}

// RemoveSubConn is SubConn.Shutdown.
func (p *policy) RemoveSubConn(sc balancer.SubConn) { sc.Shutdown() }

// UpdateAddresses is SubConn.UpdateAddresses.
func (p *policy) UpdateAddresses(sc balancer.SubConn, list []resolver.Address) {
	sc.UpdateAddresses(list) //lint:ignore SA1019 for older balancers
}

// ResolveNow asks the resolver for names again, if the policy is the latest.
func (p *policy) ResolveNow(o resolver.ResolveNowOptions) {
	p.cc.background(func() {
		p.cc.mu.Lock()
		r := p.cc.resolver
		if p != p.cc.policies.latest() {
			r = nil
		}
		p.cc.mu.Unlock()
		if r != nil {
			r.ResolveNow(o)
		}
	})
}

// Target returns the target of the ClientConn.
func (p *policy) Target() string { return p.cc.target }

// MetricsRecorder records nothing.
func (p *policy) MetricsRecorder() estats.MetricsRecorder { return noMetrics }

// noMetrics takes what balancers and resolvers measure.
var noMetrics = &estats.UnimplementedMetricsRecorder{}
