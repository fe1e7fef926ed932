package cluster

import (
	"context"

	"github.com/userspace-rpc/erpc/erpc"
)

// Pool is an erpc.Pool whose servers are those that a Resolver chooses.
type Pool struct {
	*erpc.Pool
	cancel context.CancelFunc
	done   chan struct{} // closed when nobody follows the Resolver any more
}

// Pool makes a Pool as erpc.NewPool does, with servers and spares of the Resolver. It waits until
// some are known. The Pool follows the Resolver until one of them is closed. Servers and Resolver
// of cfg are empty. Errors: those of Ready and of erpc.NewPool.
func (r *Resolver) Pool(
	ctx context.Context, cfg erpc.PoolConfig, loops ...*erpc.Loop,
) (*Pool, error) {
	if len(cfg.Servers) > 0 || cfg.Resolver != nil {
		return nil, &erpc.ConfigError{Field: "Servers", Reason: "are those of the cluster.Resolver"}
	}
	if err := r.Ready(ctx); err != nil {
		return nil, err
	}
	cfg.Servers = r.addrs(r.Choice().Preferred)
	inner, err := erpc.NewPool(cfg, loops...)
	if err != nil {
		return nil, err
	}
	p := &Pool{Pool: inner, done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		_ = r.Follow(ctx, func(_ View, c Choice) {
			// In vain once it is closed, and as long as no servers are known.
			_ = inner.SetServers(r.addrs(c.Preferred), r.addrs(c.Spares))
		})
	}()
	return p, nil
}

// maxRefused bounds how many servers are asked that refuse a call since they may not serve.
const maxRefused = 8

// Call is CallWith without options and with a response in memory of its own.
func (p *Pool) Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error) {
	return p.CallWith(ctx, erpc.CallOptions{}, nil, reqType, request)
}

// CallWith is erpc.Pool's. With Repeat it asks other servers too if one answers with a Refusal, up
// to 8 times: its handler has certainly not run. No other answer of a handler is repeated, and no
// call that was lost with its server, which may have run. Errors: those of erpc.Pool's CallWith.
func (p *Pool) CallWith(
	ctx context.Context, o erpc.CallOptions, buf []byte, reqType uint8, request []byte,
) (response []byte, err error) {
	for range maxRefused {
		response, err = p.Pool.CallWith(ctx, o, buf, reqType, request)
		if !o.Repeat || !Refused(err) {
			break
		}
	}
	return response, err
}

// addrs returns the addresses of entries for the Resolver's transport.
func (r *Resolver) addrs(list []Entry) (addrs []string) {
	for i := range list {
		addrs = append(addrs, list[i].At(r.cfg.Transport))
	}
	return addrs
}

// Close ends the Pool, as erpc.Pool's does.
func (p *Pool) Close() error {
	p.cancel()
	<-p.done
	return p.Pool.Close()
}
