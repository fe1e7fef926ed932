package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/durable"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// dial runs a server until the test ends, and returns a client.
func dial(t *testing.T, handle func(*erpc.Server) error) *erpc.Client {
	t.Helper()
	cfg := erpc.Config{NoHugepages: true}
	srv, err := erpc.NewServer(cfg)
	if err == nil {
		err = handle(srv)
	}
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tr) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, erpc.ErrClosed) {
			t.Error(err)
		}
	})
	own, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := erpc.Dial(t.Context(), own, tr.LocalAddr().String(), cfg)
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

// answers collects what calls return in other goroutines.
type answers chan error

func (a answers) of(fn func() error) { go func() { a <- fn() }() }

// none says that no call has returned although others have since.
func (a answers) none(t *testing.T, what string) {
	t.Helper()
	select {
	case err := <-a:
		t.Errorf("%s: a write was answered: %v", what, err)
	default:
	}
}

// TestServerAnswersLate: with Always a write is answered when it is synced, and each kind of it;
// reads go on meanwhile. When the log has failed writes get an error that says so.
func TestServerAnswersLate(t *testing.T) {
	d, m := durable.NewSim(), index.NewMap()
	s, err := durable.OpenSim(d, m, durable.Config{Sync: durable.Always})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.One[client.Caller](dial(t,
		server.NewDurable(m, s, server.Config{}).Handle)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, key, got := t.Context(), []byte("key"), make(answers, 10)
	reads := func(until func() bool) {
		t.Helper()
		for n := 0; n < 200 || !until(); n++ {
			if _, _, err := c.Get(ctx, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := c.Put(ctx, []byte("other"), 1); err != nil {
		t.Fatal(err)
	}
	for i, write := range []func() (uint64, bool, error){
		func() (uint64, bool, error) { return c.Put(ctx, key, 3) },
		func() (uint64, bool, error) { return c.PutIfAbsent(ctx, []byte("third"), 4) },
		func() (uint64, bool, error) { return c.Delete(ctx, key) },
	} {
		release := d.HangSyncs()
		before := m.Len()
		got.of(func() error { _, _, err := write(); return err })
		reads(func() bool { return m.Len() != before })
		// These change nothing, and say what is not synced.
		got.of(func() error { _, _, err := c.PutIfAbsent(ctx, []byte("other"), 5); return err })
		got.of(func() error { _, _, err := c.Delete(ctx, []byte("none")); return err })
		reads(func() bool { return true })
		got.none(t, fmt.Sprint("write ", i))
		release()
		for range 3 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
	}
	d.Break()
	for range 2 {
		if _, _, err := c.Put(ctx, key, 4); !errors.Is(err, message.ErrReadOnly) ||
			!strings.Contains(err.Error(), "the disk is broken") {
			t.Error(err)
		}
	}
	if _, _, err := c.Get(ctx, key); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, durable.ErrFailed) {
		t.Error(err)
	}
}

// TestServerWaits: PUTs that the disk does not keep up with are done when it does, and not before;
// reads and a bounded part of the values are in memory meanwhile.
func TestServerWaits(t *testing.T) {
	d, m := durable.NewSim(), index.NewBytes()
	s, err := durable.OpenSimBytes(d, m, durable.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewBytes(client.One[client.Caller](dial(t,
		server.NewDurableBytes(m, s, server.Config{}).Handle)))
	if err != nil {
		t.Fatal(err)
	}
	release := d.HangWrites()
	ctx, got := t.Context(), make(answers, 20)
	const all = 17
	for i := range all {
		got.of(func() error {
			_, _, err := c.Put(ctx, fmt.Append(nil, i), make([]byte, message.MaxValue))
			return err
		})
	}
	ended := 0
	for s.Ready() {
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		ended++
	}
	for range 300 {
		if _, _, err := c.Get(ctx, []byte("none")); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Len(); n == all || n < 8 {
		t.Errorf("%d of %d values are in memory", n, all)
	}
	release()
	for ; ended < all; ended++ {
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Len(); n != all {
		t.Errorf("%d of %d values", n, all)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := index.NewBytes()
	if s, err = durable.OpenSimBytes(d, again, durable.Config{}); err != nil || again.Len() != all {
		t.Fatalf("%d of %d values, %v", again.Len(), all, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestServerEnds: a server ends while writes wait for a sync; their clients get an error.
func TestServerEnds(t *testing.T) {
	d, m := durable.NewSim(), index.NewMap()
	s, err := durable.OpenSim(d, m, durable.Config{Sync: durable.Always})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	release := d.HangSyncs()
	got := make(answers, 1)
	t.Run("server", func(t *testing.T) {
		c, err := client.New(client.One[client.Caller](dial(t,
			server.NewDurable(m, s, server.Config{}).Handle)))
		if err != nil {
			t.Fatal(err)
		}
		got.of(func() error { _, _, err := c.Put(ctx, nil, 1); return err })
		for m.Len() == 0 {
			if _, _, err := c.Get(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := <-got; err == nil {
		t.Error("a write was acknowledged that is not synced")
	}
	end()
	release()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
