package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// errGone means that a server is none of the Client's any more. Nothing was sent.
var errGone = errors.New("kv: server gone")

// member is a server. Its connections open when they are needed, all at once.
type member struct {
	c    *Client
	name string
	now  atomic.Pointer[conns] // nil: not connected
	turn chan struct{}         // has a token unless somebody connects
	// Guarded by turn:
	old    []*conns // forgotten, and still used by calls
	err    error    // of the last attempt
	retry  time.Time
	closed bool
}

// conns are the connections with a server of some time.
type conns struct {
	parts []*erpc.Client // by partition
	use   sync.RWMutex   // held for reading by calls
	gone  bool           // guarded by use: no further call may use them
}

func (cs *conns) close() {
	for _, c := range cs.parts {
		_ = c.Close() // its loop goes on
	}
}

func newMember(c *Client, name string) *member {
	m := &member{c: c, name: name, turn: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m
}

// call asks the partition of a hash. Errors beside those of the call: errGone.
func (m *member) call(ctx context.Context, hash uint64, typ uint8, req []byte) ([]byte, error) {
	cs, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer cs.use.RUnlock()
	resp, err := cs.parts[mica.PartitionOf(hash, len(cs.parts))].Call(ctx, typ, req)
	if err == nil {
		return resp, nil
	}
	err = known(err)
	if errors.Is(err, message.ErrPartition) || errors.Is(err, erpc.ErrConnect) {
		m.forget(cs) // another server may be there now
	}
	return nil, err
}

// enter returns connections that stay open until the caller unlocks their use.
func (m *member) enter(ctx context.Context) (*conns, error) {
	for {
		cs, err := m.connected(ctx)
		if err != nil {
			return nil, err
		}
		if cs.use.RLock(); !cs.gone {
			return cs, nil
		}
		cs.use.RUnlock()
	}
}

// connected returns the connections of all partitions.
func (m *member) connected(ctx context.Context) (*conns, error) {
	if cs := m.now.Load(); cs != nil {
		return cs, nil
	}
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("kv: connecting to %s: %w: %w", m.name, erpc.ErrNotRun, ctx.Err())
	}
	defer func() { m.turn <- struct{}{} }()
	if cs := m.now.Load(); cs != nil {
		return cs, nil
	}
	if m.closed {
		return nil, errGone
	}
	if m.err != nil && time.Now().Before(m.retry) {
		return nil, m.err
	}
	parts, err := m.dial(ctx)
	if err != nil {
		err = fmt.Errorf("kv: %s: %w", m.name, err)
		if ctx.Err() == nil { // else it says nothing about the server
			m.err, m.retry = err, time.Now().Add(m.c.cfg.RetryAfter)
		}
		return nil, err
	}
	m.err = nil
	cs := &conns{parts: parts}
	m.now.Store(cs)
	return cs, nil
}

// dial asks a server for its partitions, and connects to each.
func (m *member) dial(ctx context.Context) (parts []*erpc.Client, err error) {
	first, err := m.c.loop.Dial(ctx, m.name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, c := range append(parts, first) {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	resp, err := first.Call(ctx, message.Info, nil)
	if err != nil {
		return nil, err
	}
	layout, err := message.ParseLayout(resp)
	if err != nil {
		return nil, err
	}
	for i, addr := range layout.Addrs {
		if i == layout.Partition {
			parts = append(parts, first)
			first = nil
			continue
		}
		c, err := m.c.loop.Dial(ctx, reachable(addr, m.name))
		if err != nil {
			return parts, err
		}
		parts = append(parts, c)
	}
	return parts, nil
}

// reachable returns the address of a partition whose server listens on all addresses of its
// machine: with the host by which the server is known.
func reachable(addr, name string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr
	}
	known, _, err := net.SplitHostPort(name)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(known, port)
}

// forget drops connections, so that the next call connects anew. Calls that use them go on.
func (m *member) forget(cs *conns) {
	<-m.turn
	if m.now.CompareAndSwap(cs, nil) {
		m.old = append(m.old, cs)
		go m.drain(cs) // Close ends the calls
	}
	m.turn <- struct{}{}
}

// drain closes forgotten connections when no call uses them.
func (m *member) drain(cs *conns) {
	cs.use.Lock()
	cs.gone = true
	cs.use.Unlock()
	<-m.turn
	m.old = slices.DeleteFunc(m.old, func(o *conns) bool { return o == cs })
	m.turn <- struct{}{}
	cs.close()
}

// retire closes a member that is none of the servers any more, when no call uses it.
func (m *member) retire() {
	<-m.turn
	m.closed = true
	cs := m.now.Swap(nil)
	m.turn <- struct{}{}
	if cs != nil {
		m.drain(cs)
	}
}

// close ends all connections, and the calls that use them.
func (m *member) close() {
	<-m.turn
	m.closed = true
	if cs := m.now.Swap(nil); cs != nil {
		cs.close()
	}
	for _, cs := range m.old {
		cs.close()
	}
	m.turn <- struct{}{}
}
