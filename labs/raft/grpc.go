package main

import (
	"context"
	"errors"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialGRPC returns callers over some connections to the leader, each with a session of the store.
func dialGRPC(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error,
) {
	var conns []*grpc.ClientConn
	stop = func() (err error) {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	for range endpoints {
		c, err := grpc.NewClient(members[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		conns = append(conns, c)
	}
	for i := range clients {
		g := &grpcLab{conn: conns[i%endpoints]}
		if err := g.open(ctx); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		callers = append(callers, func(ctx context.Context, write bool, key string, value []byte) error {
			c := kv.Command{Op: kv.Get, Cluster: 1}
			c.Key, _ = kv.MakeKey(key)
			if write {
				g.seq++
				c.Op, c.Session, c.Seq = kv.Put, g.session, g.seq
				c.Value, _ = kv.MakeValue(value)
			}
			a, err := g.call(ctx, c)
			return errors.Join(err, a.Status.Err())
		})
	}
	return callers, stop, nil
}
