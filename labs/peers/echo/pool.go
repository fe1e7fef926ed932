package echo

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// erpcPool is a Pool over a Loop of its own.
type erpcPool struct {
	*erpc.Pool
	loop *erpc.Loop
}

func dialERPCPool(ctx context.Context, addrs []string, z Sizes) (Pool, error) {
	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return nil, err
	}
	loop, err := erpc.NewLoop(local, erpcConfig(z))
	if err != nil {
		return nil, err
	}
	p, err := erpc.NewPool(erpc.PoolConfig{Servers: addrs}, loop)
	if err != nil {
		return nil, errors.Join(err, loop.Close())
	}
	c := &erpcPool{p, loop}
	if err := p.Ready(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *erpcPool) NewCall() Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		return c.Call(ctx, echoType, request)
	}
}

func (c *erpcPool) Ready() (n int) {
	for _, s := range c.Servers() {
		if s.State == erpc.ServerReady {
			n++
		}
	}
	return n
}

func (*erpcPool) NotRun(err error) bool { return errors.Is(err, erpc.ErrNotRun) }

func (c *erpcPool) Close() error { return errors.Join(c.Pool.Close(), c.loop.Close()) }

// grpcPool is a connection with the policy round_robin, which grpc-go has for this.
type grpcPool struct{ grpcConn }

func dialGRPCPool(_ context.Context, addrs []string, z Sizes) (Pool, error) {
	names := manual.NewBuilderWithScheme("servers")
	var state resolver.State
	for _, a := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	names.InitialState(state)
	c, err := grpc.NewClient(names.Scheme()+":///all", grpc.WithResolvers(names),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(z.limit()),
			grpc.MaxCallSendMsgSize(z.limit())))
	if err != nil {
		return nil, err
	}
	return grpcPool{grpcConn{c}}, nil
}

func (grpcPool) Ready() int { return -1 }

// NotRun: a status says nothing of that.
func (grpcPool) NotRun(error) bool { return false }
