package grpccluster

import (
	"context"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/userspace-rpc/erpc/cluster"
)

// Scheme is that of targets: cluster:///SERVICE.
const Scheme = "cluster"

// builder is a resolver.Builder.
type builder struct {
	source func(service string) (cluster.Source, error)
	cfg    cluster.Config
}

// NewBuilder returns a builder of resolvers for targets cluster:///SERVICE. It asks source for
// each. For grpc-go Config.Transport is cluster.GRPC. An address has its entry, see EntryOf.
func NewBuilder(
	source func(service string) (cluster.Source, error), c cluster.Config,
) resolver.Builder {
	return builder{source, c}
}

func (builder) Scheme() string { return Scheme }

func (b builder) Build(
	target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	source, err := b.source(target.Endpoint())
	if err != nil {
		return nil, err
	}
	cfg := b.cfg
	if cfg.Transport == "" {
		cfg.Transport = cluster.UDP
	}
	r := &following{cc: cc, transport: cfg.Transport, done: make(chan struct{})}
	if r.names, err = cluster.NewResolver(source, cfg); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.done)
		r.follow()
	}()
	return r, nil
}

// following is a resolver.Resolver.
type following struct {
	cc        resolver.ClientConn
	names     *cluster.Resolver
	transport string
	done      chan struct{}
}

// follow gives the ClientConn each choice.
func (r *following) follow() {
	_ = r.names.Follow(context.Background(), func(v cluster.View, c cluster.Choice) {
		if len(c.Preferred) == 0 {
			err := v.Err
			if err == nil {
				err = cluster.ErrNoServers
			}
			r.cc.ReportError(err)
			return
		}
		var s resolver.State
		for _, e := range c.Preferred {
			a := resolver.Address{Addr: e.At(r.transport), Attributes: attributes.New(key{}, entry{e})}
			s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
		}
		_ = r.cc.UpdateState(s) // a balancer that refuses it says so itself
	})
}

func (r *following) ResolveNow(resolver.ResolveNowOptions) {}

func (r *following) Close() {
	_ = r.names.Close()
	<-r.done
}

type key struct{}

// entry is an attribute: gRPC compares it to find addresses that stay. Load is told with each
// renewal, and makes no other address.
type entry struct{ cluster.Entry }

// Equal is what gRPC's attributes ask for.
func (e entry) Equal(o any) bool {
	other, ok := o.(entry)
	return ok && e.Addr == other.Addr && e.Instance == other.Instance
}

// EntryOf returns the entry of an address that a resolver of this package has given.
func EntryOf(a resolver.Address) (cluster.Entry, bool) {
	e, ok := a.Attributes.Value(key{}).(entry)
	return e.Entry, ok
}
