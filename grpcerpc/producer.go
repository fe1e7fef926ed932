package grpcerpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// producer is what balancers run beside a connection, such as ORCA's reports of a server's load.
// All who ask for one of a builder share it.
type producer struct {
	balancer.Producer
	users int
	close func()
}

// GetOrBuildProducer returns the builder's producer, whose calls go over this connection. It ends
// when the state changes, or when all who have it have called what this returns.
func (sc *subConn) GetOrBuildProducer(b balancer.ProducerBuilder) (balancer.Producer, func()) {
	sc.producing.Lock()
	defer sc.producing.Unlock()
	p := sc.producers[b]
	if p == nil {
		p = new(producer)
		p.Producer, p.close = b.Build(sc)
		if sc.producers == nil {
			sc.producers = make(map[balancer.ProducerBuilder]*producer)
		}
		sc.producers[b] = p
	}
	p.users++
	return p.Producer, sync.OnceFunc(func() {
		sc.producing.Lock()
		p.users--
		last := p.users == 0 // not if closeProducers was first
		if last {
			delete(sc.producers, b)
		}
		sc.producing.Unlock()
		if last {
			p.close()
		}
	})
}

// closeProducers ends all producers.
func (sc *subConn) closeProducers() {
	sc.producing.Lock()
	list := sc.producers
	sc.producers = nil
	for _, p := range list {
		p.users = 0
	}
	sc.producing.Unlock()
	for _, p := range list {
		p.close()
	}
}

// Invoke makes a call of a producer: at this server, or at none.
func (sc *subConn) Invoke(
	ctx context.Context, method string, args, reply any, opts ...grpc.CallOption,
) error {
	c, err := sc.callInfo(method, opts)
	if err != nil {
		return err
	}
	_, err = sc.cc.attempts(ctx, c, args, reply)
	c.finish(err)
	return err
}

// NewStream begins a stream of a producer.
func (sc *subConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c, err := sc.callInfo(method, opts)
	if err != nil {
		return nil, err
	}
	return sc.cc.newRetryStream(ctx, c, desc, false)
}

// callInfo reads the options of a producer's call. As in grpc-go, no stats handler learns of it.
func (sc *subConn) callInfo(method string, opts []grpc.CallOption) (*callInfo, error) {
	c, err := sc.cc.callInfoOf(method, opts)
	if err == nil {
		c.only, c.stats, c.retries = sc, nil, retries{}
	}
	return c, err
}

// choose implements chosen, for the calls of producers.
func (sc *subConn) choose() (*link, error) {
	if l := sc.use(); l != nil {
		return l, nil
	}
	return nil, status.Error(codes.Unavailable, "SubConn state is not Ready")
}

// grpcOptions returns the options that a grpc.ClientConn builds balancers with. Balancers log to
// their ChannelzParent, which is of a type that only grpc can make, and end the process without it.
// This one is of a ClientConn that never connects and is closed, so channelz does not show it.
var grpcOptions = sync.OnceValue(func() (opts balancer.BuildOptions) {
	m := manual.NewBuilderWithScheme(optionsName)
	m.InitialState(resolver.State{})
	cc, err := grpc.NewClient(optionsName+":///", grpc.WithResolvers(m), grpc.WithNoProxy(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+optionsName+`": {}}]}`))
	if err != nil {
		return opts
	}
	cc.Connect()
	_ = cc.Close() // nothing is left to be done about it
	select {
	case opts = <-optionsSeen:
	default: // grpc has changed
	}
	return opts
})

// optionsName is the name of optionsBuilder.
const optionsName = "grpcerpc-options"

// optionsSeen has what optionsBuilder was given.
var optionsSeen = make(chan balancer.BuildOptions, 1)

func init() { balancer.Register(optionsBuilder{}) }

// optionsBuilder notes its options, and is pick_first.
type optionsBuilder struct{}

func (optionsBuilder) Name() string { return optionsName }

func (optionsBuilder) Build(
	cc balancer.ClientConn, opts balancer.BuildOptions,
) balancer.Balancer {
	select {
	case optionsSeen <- opts:
	default:
	}
	return balancer.Get(pickfirst.Name).Build(cc, opts)
}
