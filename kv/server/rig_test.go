package server_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server under test.
type rig struct {
	*server.Server
	addrs []string
	trs   []transport.Transport
	now   *atomic.Uint32
	ended chan error
}

// serve runs a server over UDP until the test ends.
func serve(t *testing.T, cfg server.Config) *rig {
	t.Helper()
	r := &rig{now: new(atomic.Uint32), ended: make(chan error, 1)}
	r.now.Store(1000)
	cfg.Rpc.NoHugepages, cfg.Store.NoHugepages = true, true
	cfg.Clock, cfg.Tick = r.now.Load, time.Millisecond
	if cfg.Store.Memory == 0 {
		cfg.Store.Memory = 4 << 20
	}
	var err error
	if r.Server, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	var trs []transport.Transport
	for range r.Partitions() {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		trs = append(trs, tr)
		r.addrs = append(r.addrs, tr.LocalAddr().String())
	}
	r.trs = trs
	go func() { r.ended <- r.Serve(trs) }()
	t.Cleanup(func() { r.stop(t) })
	for r.Do(0, func(*mica.Partition) {}) != nil {
		runtime.Gosched() // until Serve has begun
	}
	return r
}

// stop ends the server, once.
func (r *rig) stop(t *testing.T) {
	t.Helper()
	if r.ended == nil {
		return
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-r.ended; !errors.Is(err, erpc.ErrClosed) {
		t.Error(err)
	}
	r.ended = nil
}

// newLoop opens an event loop for clients, with faults both ways.
func newLoop(t *testing.T, faults faulty.Faults, timing erpc.Timing) *erpc.Loop {
	t.Helper()
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var tr transport.Transport = conn
	if faults != (faulty.Faults{}) {
		if tr, err = faulty.New(conn, faulty.Config{Seed: 1, TX: faults, RX: faults}); err != nil {
			t.Fatal(err)
		}
	}
	loop, err := erpc.NewLoop(tr, erpc.Config{NoHugepages: true, Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := loop.Close(); err != nil {
			t.Error(err)
		}
	})
	return loop
}

// connect returns a client of servers, each by the address of one of its partitions.
func connect(t *testing.T, addrs ...string) *client.Client {
	t.Helper()
	return connectOver(t, newLoop(t, faulty.Faults{}, erpc.Timing{}), client.Config{Servers: addrs})
}

func connectOver(t *testing.T, loop *erpc.Loop, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(context.Background(), loop, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
