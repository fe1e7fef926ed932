package grpcerpc

import (
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"
)

// resolverConn is the resolver.ClientConn of a ClientConn. What a resolver says counts as long as
// its period lasts.
type resolverConn struct {
	resolver.ClientConn // nil: grpc may add methods
	cc                  *ClientConn
	period              *period
}

// UpdateState gives addresses to the balancer, and waits for its opinion.
func (r resolverConn) UpdateState(s resolver.State) error {
	result := make(chan error, 1)
	if !r.cc.serial.do(func() { result <- r.cc.update(r.period, s) }) {
		return errClosing
	}
	return <-result
}

// ReportError tells the balancer that names cannot be resolved.
func (r resolverConn) ReportError(err error) {
	r.cc.serial.do(func() { r.cc.unresolved(r.period, err) })
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

// unresolved takes an error of the resolver, in cc.serial.
func (cc *ClientConn) unresolved(p *period, err error) {
	if cc.period.Load() != p {
		return
	}
	config := cc.config.Load()
	cc.apply(config)
	cc.policyOf(config).balancer.ResolverError(err)
	p.resolve()
}

// update takes what a resolver says, in cc.serial.
func (cc *ClientConn) update(p *period, s resolver.State) error {
	if cc.period.Load() != p {
		return errClosing
	}
	defer p.resolve()
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
	config, err := cc.configOf(s.ServiceConfig)
	if err != nil && !cc.applied {
		cc.mu.Lock()
		cc.setPicker(balancer.State{ConnectivityState: connectivity.TransientFailure,
			Picker: base.NewErrPicker(err)})
		cc.mu.Unlock()
		return balancer.ErrBadResolverState
	}
	cc.apply(config)
	state := balancer.ClientConnState{ResolverState: s}
	if config != nil {
		state.BalancerConfig = config.balancerConfig
	}
	said := cc.policyOf(config).balancer.UpdateClientConnState(state)
	if err != nil {
		return balancer.ErrBadResolverState
	}
	return said
}

// configOf returns the service config that holds with one of the resolver, as grpc-go does: with
// none, or with one that cannot be read, which is an error, the last one goes on.
func (cc *ClientConn) configOf(r *serviceconfig.ParseResult) (*serviceConfig, error) {
	before := cc.config.Load() // at first the default one
	if r == nil || cc.opts.noService {
		return before, nil
	}
	c, ok := r.Config.(*serviceConfig)
	switch {
	case r.Err != nil:
		return before, status.Errorf(codes.Unavailable, "error parsing service config: %v", r.Err)
	case !ok:
		return before, status.Errorf(codes.Unavailable, "illegal service config type: %T", r.Config)
	}
	return c, nil
}

// apply has calls go by a service config from now on, in cc.serial.
func (cc *ClientConn) apply(c *serviceConfig) {
	cc.applied = true
	cc.config.Store(c)
	cc.throttle.Store(newThrottle(c)) // it is full after each update, as grpc-go's
	if c != nil && c.hedges && !cc.opts.noRetry {
		hedgesTold.Do(func() {
			logger.Warning("hedgingPolicy is not supported, as in grpc-go: calls go out once")
		})
	}
}

// logger logs as grpc does.
var logger = grpclog.Component("grpcerpc")

// hedgesTold is for what is logged of hedgingPolicy.
var hedgesTold sync.Once
