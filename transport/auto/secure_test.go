package auto

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport/shm"
)

// TestTrustLocal: with TLS demanded, sessions over shared memory are sealed like all others, or
// with TrustLocal plain; then Authorize gets the user. Over UDP TrustLocal changes nothing, and a
// client that trusts has no session with a server that does not. The name in the certificate is the
// host that was dialled, whichever way leads there.
func TestTrustLocal(t *testing.T) {
	needShared(t)
	keys := sectest.NewCA("test").Config("127.0.0.1", "spiffe://test/all")
	local := meeting(t)
	off := local
	off.NoSharedMemory = true
	for _, v := range []struct {
		name           string
		cfg            Config
		server, client bool // TrustLocal
		err            error
		uid            int
	}{
		{"neither", local, false, false, nil, -1},
		{"both", local, true, true, nil, os.Getuid()},
		{"client", local, false, true, erpc.ErrInsecure, 0},
		{"server", local, true, false, nil, -1},
		{"UDP", off, true, true, nil, -1},
		{"denied", local, true, true, erpc.ErrDenied, os.Getuid()},
	} {
		t.Run(v.name, func(t *testing.T) {
			var state atomic.Pointer[erpc.ConnectionState]
			var shared atomic.Bool
			cfg := erpc.Config{TLS: keys, TrustLocal: v.server}
			cfg.Authorize = func(_ context.Context, s erpc.ConnectionState) error {
				state.Store(&s)
				shared.Store(shm.IsAddr(&s.Peer))
				if v.name == "denied" {
					return errors.New("no")
				}
				return nil
			}
			addr := serveSecure(t, v.cfg, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			c, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0", v.cfg), addr,
				erpc.Config{TLS: keys, TrustLocal: v.client})
			if !errors.Is(err, v.err) || v.err == nil && err != nil {
				t.Fatalf("%v, want %v", err, v.err)
			}
			if err == nil {
				defer c.Close()
				if b, err := c.Call(ctx, 1, []byte("all")); err != nil || string(b) != "all" {
					t.Errorf("%q, %v", b, err)
				}
			}
			s := state.Load()
			switch {
			case v.name == "client" && s == nil:
			case s == nil || s.UID != v.uid:
				t.Errorf("Authorize got %+v, want user %d", s, v.uid)
			case shared.Load() == v.cfg.NoSharedMemory:
				t.Errorf("the peer is %v", s.Peer)
			case (s.TLS != nil) != (v.uid < 0) || (s.Cipher != "") != (v.uid < 0):
				t.Errorf("state %+v", s)
			}
		})
	}
}

// TestTrustLocalAsksBothSides: where shared memory is trusted both sides' Authorize is asked once
// per session, and not in the loop: while it waits, others have their calls answered.
func TestTrustLocalAsksBothSides(t *testing.T) {
	needShared(t)
	keys := sectest.NewCA("test").Config("127.0.0.1", "spiffe://test/all")
	way := meeting(t)
	var asked atomic.Int32
	entered, proceed := make(chan struct{}), make(chan struct{})
	cfg := erpc.Config{TLS: keys, TrustLocal: true}
	cfg.Authorize = func(ctx context.Context, s erpc.ConnectionState) error {
		if asked.Add(1) == 2 {
			close(entered)
			<-proceed
		}
		if s.Client || s.UID != os.Getuid() {
			return errors.New("this is a client of this user's, at its server")
		}
		return nil
	}
	addr := serveSecure(t, way, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var client atomic.Int32
	mine := erpc.Config{TLS: keys, TrustLocal: true}
	mine.Authorize = func(_ context.Context, s erpc.ConnectionState) error {
		if client.Add(1); !s.Client || s.UID != os.Getuid() {
			return errors.New("this is a server of this user's")
		}
		return nil
	}
	first, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0", way), addr, mine)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second := make(chan error, 1)
	go func() {
		c, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0", way), addr, mine)
		if err == nil {
			err = c.Close()
		}
		second <- err
	}()
	<-entered
	if _, err := first.Call(ctx, 1, []byte("while it waits")); err != nil {
		t.Errorf("beside a question: %v", err)
	}
	close(proceed)
	if err := <-second; err != nil {
		t.Error(err)
	}
	if s, c := asked.Load(), client.Load(); s != 2 || c != 2 {
		t.Errorf("two sessions: the server asked %d times, the clients %d times", s, c)
	}
	mine.Authorize = func(context.Context, erpc.ConnectionState) error {
		return errors.New("not this one")
	}
	_, err = erpc.Dial(ctx, listen(t, "127.0.0.1:0", way), addr, mine)
	if !errors.Is(err, erpc.ErrDenied) {
		t.Errorf("a client that refuses its server: %v", err)
	}
}

// serveSecure runs an echo server until the test ends.
func serveSecure(t *testing.T, way Config, cfg erpc.Config) (addr string) {
	t.Helper()
	s, err := erpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.HandleInline(1, func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }); err != nil {
		t.Fatal(err)
	}
	tr := listen(t, "127.0.0.1:0", way)
	done := make(chan struct{})
	go func() { _ = s.Serve(tr); close(done) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return tr.LocalAddr().String()
}
