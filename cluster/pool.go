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
