package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/hraft"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// hashiMember is the state machine on hashicorp/raft, whose messages go over its own TCP transport,
// or over hraft. Clients come over this library in both cases: the rows differ in that only.
type hashiMember struct {
	trans  raft.Transport
	server *erpc.Server
	serves string // clients
	raft   *raft.Raft
	store  *fileStore
	mu     sync.Mutex
	kv     *kv.Store
}

func newHashiTCP() (member, error) {
	t, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, 10*time.Second, io.Discard)
	if err != nil {
		return nil, err
	}
	return newHashi(t)
}

func newHraft() (member, error) {
	t, err := hraft.NewUDPTransport("127.0.0.1:0", hraft.Config{Erpc: erpc.Config{NoHugepages: true}})
	if err != nil {
		return nil, err
	}
	return newHashi(t)
}

func newHashi(t raft.Transport) (member, error) {
	m := &hashiMember{trans: t, kv: kv.NewStore()}
	var err error
	if m.server, err = erpc.NewServer(erpc.Config{NoHugepages: true}); err != nil {
		return nil, err
	}
	if err := m.server.Handle(1, m.call); err != nil {
		return nil, err
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return nil, err
	}
	m.serves = tr.LocalAddr().String()
	go func() { _ = m.server.Serve(tr) }() // its end is Close's
	return m, nil
}

// addr is where clients are served and where the other members call, with a space between.
func (m *hashiMember) addr() string { return m.serves + " " + string(m.trans.LocalAddr()) }

func (m *hashiMember) start(_ context.Context, st *start) error {
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(fmt.Sprint(st.ID))
	cfg.Logger = hclog.NewNullLogger()
	m.store = &fileStore{InmemStore: raft.NewInmemStore()}
	if st.Sync {
		if err := os.MkdirAll(st.Dir, 0o700); err != nil {
			return err
		}
		var err error
		if m.store.f, err = os.Create(filepath.Join(st.Dir, "log")); err != nil {
			return err
		}
	}
	var conf raft.Configuration
	for id := uint64(1); id <= uint64(len(st.Members)); id++ {
		_, peer, _ := strings.Cut(st.Members[id], " ")
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint(id)),
			Address: raft.ServerAddress(peer)})
	}
	snaps := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(cfg, m.store, m.store, snaps, m.trans, conf); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	m.raft, err = raft.NewRaft(cfg, m, m.store, m.store, snaps, m.trans)
	return err
}

// call is a client's command.
func (m *hashiMember) call(_ context.Context, b []byte) ([]byte, error) {
	c, err := kv.ParseCommand(b)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	r := m.raft
	m.mu.Unlock()
	a := kv.Answer{Status: kv.NotLeader}
	switch {
	case r == nil || r.State() != raft.Leader:
	case c.Op == kv.Get:
		if r.VerifyLeader().Error() != nil {
			break
		}
		m.mu.Lock()
		v, found := m.kv.Get(c.Key)
		m.mu.Unlock()
		if a = (kv.Answer{Status: kv.NotFound}); found {
			a = kv.Answer{Status: kv.OK, Found: true, Value: v}
		}
	default:
		f := r.Apply(bytes.Clone(b), 10*time.Second)
		if f.Error() == nil {
			a = f.Response().(kv.Answer)
		}
	}
	return a.Append(nil), nil
}

// Apply implements raft.FSM.
func (m *hashiMember) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := *m.kv.Apply(l.Index, l.Data)
	if a.Status == kv.Malformed || a.Status == kv.TooLarge { // its state would differ from the others'
		panic(kv.NewEntryError(l.Index, l.Data))
	}
	return a
}

// Snapshot implements raft.FSM. None is made in so short a time.
func (m *hashiMember) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.ErrUnsupported }

// Restore implements raft.FSM; it is not called.
func (m *hashiMember) Restore(io.ReadCloser) error { return errors.ErrUnsupported }

func (m *hashiMember) figures() used {
	if m.store == nil {
		return used{}
	}
	return used{Fsync: m.store.median()}
}

func (m *hashiMember) close() (err error) {
	if m.raft != nil {
		err = m.raft.Shutdown().Error()
	}
	if t, ok := m.trans.(raft.WithClose); ok {
		err = errors.Join(err, t.Close())
	}
	err = errors.Join(err, m.server.Close())
	if m.store != nil && m.store.f != nil {
		err = errors.Join(err, m.store.f.Close())
	}
	return err
}

// dialHashi returns callers over some endpoints to the leader, each with a session of the store.
func dialHashi(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error,
) {
	var all []*erpc.Client
	stop = func() (err error) {
		for _, c := range all {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	dial := func(addr string) (*erpc.Client, error) {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			return nil, err
		}
		c, err := erpc.Dial(ctx, tr, addr, erpc.Config{NoHugepages: true})
		if err == nil {
			all = append(all, c)
		}
		return c, err
	}
	leader, err := hashiLeader(ctx, members, dial)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	var conns []*erpc.Client
	for range endpoints {
		c, err := dial(leader)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		conns = append(conns, c)
	}
	for i := range clients {
		s := &hashiSession{c: conns[i%endpoints]}
		a, err := s.do(ctx, kv.Command{Op: kv.Open, Cluster: 1})
		if err = cmp.Or(err, a.Status.Err()); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		s.number = a.Number
		callers = append(callers, s.call)
	}
	return callers, stop, nil
}

// hashiLeader waits for the leader and returns its address for clients.
func hashiLeader(ctx context.Context, members map[uint64]string,
	dial func(addr string) (*erpc.Client, error)) (string, error) {
	conns := map[string]*erpc.Client{}
	for _, addr := range members {
		c, err := dial(clientAddr(addr))
		if err != nil {
			return "", err
		}
		conns[clientAddr(addr)] = c
	}
	for ctx.Err() == nil {
		for addr, c := range conns {
			a, err := (&hashiSession{c: c}).do(ctx, kv.Command{Op: kv.Open, Cluster: 1})
			if err == nil && a.Status == kv.OK {
				return addr, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return "", ctx.Err()
}

// hashiSession is one of the store.
type hashiSession struct {
	c           *erpc.Client
	number, seq uint64
}

func (s *hashiSession) do(ctx context.Context, c kv.Command) (kv.Answer, error) {
	b, err := s.c.Call(ctx, 1, c.Append(nil))
	if err != nil {
		return kv.Answer{}, err
	}
	return kv.ParseAnswer(b)
}

func (s *hashiSession) call(ctx context.Context, write bool, key string, value []byte) error {
	c := kv.Command{Op: kv.Get, Cluster: 1}
	c.Key, _ = kv.MakeKey(key)
	if write {
		s.seq++
		c.Op, c.Session, c.Seq = kv.Put, s.number, s.seq
		c.Value, _ = kv.MakeValue(value)
	}
	a, err := s.do(ctx, c)
	return errors.Join(err, a.Status.Err())
}
