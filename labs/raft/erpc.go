package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// erpcMember is a replica over this library and UDP, as raft-kv server runs one.
type erpcMember struct {
	nexus *erpc.Nexus
	rpc   *erpc.Rpc
	node  atomic.Pointer[node.Node]
	files *node.Files
	over  atomic.Bool
	ended chan error
}

func newErpc() (member, error) {
	m := &erpcMember{}
	var err error
	m.nexus, m.rpc, err = listen(func(x *erpc.Nexus) error {
		return node.RegisterLate(x, m.node.Load)
	})
	return m, err
}

// listen makes a member's endpoint with some handlers.
func listen(register func(*erpc.Nexus) error) (x *erpc.Nexus, r *erpc.Rpc, err error) {
	ec := node.ErpcConfig(erpc.Config{NoHugepages: true}, replica.Config{}.ElectionTimeout())
	if x, err = erpc.NewNexus(ec); err != nil {
		return nil, nil, err
	}
	if err = register(x); err == nil {
		var tr *udp.Conn
		if tr, err = udp.Listen("127.0.0.1:0", udp.Config{}); err == nil {
			r, err = x.NewRpc(tr)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	return x, r, nil
}

func (m *erpcMember) addr() string { return m.rpc.LocalAddr().String() }

func (m *erpcMember) start(_ context.Context, st *start) error {
	cfg := node.Config{Config: replica.Config{Cluster: 1, ID: st.ID, Keys: st.Keys, Lease: st.Lease},
		Log: node.NewLogID(), Start: replica.Boot(st.Members)}
	if st.Dir != "" {
		var err error
		if m.files, err = node.OpenFiles(st.Dir, &cfg, cfg.Start); err != nil {
			return err
		}
	}
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	n.Attach(m.rpc)
	if m.files != nil {
		m.files.Attach(m.rpc)
	}
	m.node.Store(n)
	if st.ID == 1 {
		n.Replica().Campaign()
	}
	m.ended = make(chan error, 1)
	go func() { m.ended <- n.Run(m.over.Load) }()
	return nil
}

func (m *erpcMember) figures() (f used) {
	if m.files != nil {
		f.Fsync = m.files.SyncTime()
	}
	return f
}

func (m *erpcMember) close() (err error) {
	if m.ended != nil {
		m.over.Store(true)
		m.rpc.Wake()
		err = <-m.ended
	}
	err = errors.Join(err, m.rpc.Close())
	if m.files != nil {
		err = errors.Join(err, m.files.Close())
	}
	return errors.Join(err, m.nexus.Close())
}

// clientSlots are the requests that a session of a client may have under way.
const clientSlots = 32

func clientConfig(members map[uint64]string) client.Config {
	return client.Config{Cluster: 1, Servers: []string{members[1], members[2], members[3]},
		Attempt: time.Second}
}

// dialErpc returns callers over some endpoints, each with a loop of its own.
func dialErpc(_ context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error,
) {
	var all []*client.Blocking
	stop = func() error {
		for _, b := range all {
			b.Close()
		}
		return nil
	}
	for range endpoints {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		b, err := client.Dial(tr, clientConfig(members),
			erpc.Config{NoHugepages: true, Slots: clientSlots})
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		all = append(all, b)
	}
	for i := range clients {
		b := all[i%endpoints]
		callers = append(callers, func(ctx context.Context, write bool, key string, value []byte) error {
			if write {
				return b.Put(ctx, key, value)
			}
			_, found, err := b.Get(ctx, key)
			if err == nil && !found {
				err = fmt.Errorf("%s: %w", key, kv.ErrNotFound)
			}
			return err
		})
	}
	return callers, stop, nil
}
