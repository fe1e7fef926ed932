package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// Number is a client's number among the clients of a service and a zone, for cluster.Config. It is
// held under a lease: clients that are there have the numbers from 0 on, with few holes, and no two
// have one number but for a lease's time, in which one has lost etcd. Then load is less even, and
// nothing else. Its methods are safe from any goroutine.
type Number struct {
	cfg    Config
	store  store
	clock  clock
	prefix string
	owner  string // the value of the claim
	id     string // of this process
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when nobody renews it any more
	value  atomic.Uint64
	lease  int64
	ttl    time.Duration
}

// ClaimNumber takes the lowest number that is free among the clients of a service in a zone, or the
// one that an earlier process of the same name has, and holds it until Close. Name is the client's
// own, as a pod's; "" gives it one. Of Config only Service, EtcdID, TTL and OnProblem count; a
// longer TTL spares etcd requests, of which there is one each third of it. The etcd client stays
// the caller's. Without an answer it ends after a TTL. Errors: those of Register.
func ClaimNumber(
	ctx context.Context, client *clientv3.Client, c Config, zone, name string,
) (*Number, error) {
	if client == nil {
		return nil, &erpc.ConfigError{Field: "Client", Reason: "is nil"}
	}
	return claimNumber(ctx, real{client}, machine, c, zone, name)
}

func claimNumber(
	ctx context.Context, s store, k clock, c Config, zone, name string,
) (*Number, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if strings.Contains(zone, "/") {
		return nil, &erpc.ConfigError{Field: "Zone", Reason: "has a slash"}
	}
	id := newInstance()
	if name == "" {
		name = id
	}
	n := &Number{cfg: c, store: s, clock: k, owner: name, id: id, done: make(chan struct{}),
		prefix: fmt.Sprintf("%s%s/%s/", clients, c.Service, zone)}
	ctx, cancel := k.limit(ctx, c.TTL)
	defer cancel()
	if err := n.claim(ctx); err != nil {
		return nil, err
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(n.done)
		n.keep()
	}()
	return n, nil
}

// Value returns the number, from 0. It may change when etcd was away for longer than the lease.
func (n *Number) Value() uint64 { return n.value.Load() }

// Close gives the number back, or lets its lease end if ctx ends before, or a TTL. Errors: those of
// etcd.
func (n *Number) Close(ctx context.Context) error {
	n.cancel()
	<-n.done
	ctx, cancel := n.clock.limit(ctx, n.ttl)
	defer cancel()
	return named(n.store.revoke(ctx, n.lease))
}

// claim takes a number under a new lease.
func (n *Number) claim(ctx context.Context) error {
	lease, ttl, err := n.store.grant(ctx, n.cfg.TTL)
	if err != nil {
		return named(err)
	}
	taken := &taken{prefix: n.prefix, id: n.id, owner: n.owner, lease: lease}
	for range maxTries {
		ok, err := n.try(ctx, lease, taken)
		if err != nil {
			giveBack(ctx, n.store, n.clock, lease)
			return err
		}
		if ok {
			n.lease, n.ttl = lease, ttl
			return nil
		}
	}
	giveBack(ctx, n.store, n.clock, lease)
	return fmt.Errorf("%w: others were faster %d times", cluster.ErrUnavailable, maxTries)
}

// try claims a number that is free. It reports false if another one was faster.
func (n *Number) try(ctx context.Context, lease int64, taken *taken) (bool, error) {
	if err := taken.list(ctx, n.store); err != nil {
		return false, err
	}
	p, number := taken.choose(func(i int) string { return fmt.Sprintf("%s%d", n.prefix, i) })
	ok, h, err := n.store.put(ctx, lease, append(taken.leave(), p)...)
	if err != nil {
		return false, named(err)
	}
	if ok {
		n.value.Store(uint64(number))
	}
	return ok, n.cfg.checkID(h)
}

// keep renews the lease until Close.
func (n *Number) keep() {
	for {
		select {
		case <-n.clock.after(n.ttl / 3):
		case <-n.ctx.Done():
			return
		}
		ctx, cancel := n.clock.limit(n.ctx, n.ttl/3)
		_, err := n.store.renew(ctx, n.lease)
		if err == errNoLease {
			err = n.claim(ctx)
		}
		cancel()
		if err != nil && n.ctx.Err() == nil {
			n.cfg.OnProblem(named(err))
		}
	}
}
