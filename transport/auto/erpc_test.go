package auto

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
)

// serve runs an echo server on tr. stop ends it. overShared counts requests that came over
// shared memory, all counts all.
func serve(t *testing.T, tr transport.Transport) (stop func(), overShared, all *atomic.Int64) {
	t.Helper()
	overShared, all = new(atomic.Int64), new(atomic.Int64)
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.HandleInline(1, func(h erpc.ReqHandle) {
		all.Add(1)
		if peer := h.Peer(); shm.IsAddr(&peer) {
			overShared.Add(1)
		}
		_ = h.RespondBytes(h.Data())
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	stop = func() {
		s.Close()
		if err := <-ended; !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	}
	return stop, overShared, all
}

// TestDial: Dial and Server over "127.0.0.1:port" use shared memory, and UDP with a
// peer that has nothing else, on either side.
func TestDial(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	off := cfg
	off.NoSharedMemory = true
	for _, v := range []struct {
		name           string
		server, client Config
		shared         bool
	}{{"both", cfg, cfg, true}, {"client only", off, cfg, false}, {"server only", cfg, off, false}} {
		t.Run(v.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			tr := listen(t, "127.0.0.1:0", v.server)
			stop, overShared, all := serve(t, tr)
			defer stop()
			c, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0", v.client), tr.LocalAddr().String(),
				erpc.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, size := range []int{0, 32, 5000, 200_000} {
				req := make([]byte, size)
				for i := range req {
					req[i] = byte(i * 7)
				}
				resp, err := c.Call(ctx, 1, req)
				if err != nil || string(resp) != string(req) {
					t.Fatalf("call of %d bytes: %d bytes, %v", size, len(resp), err)
				}
			}
			want := int64(0)
			if v.shared {
				want = all.Load()
			}
			if overShared.Load() != want || all.Load() != 4 {
				t.Errorf("%d of %d requests came over shared memory", overShared.Load(), all.Load())
			}
		})
	}
}

// TestReconnect: the server comes back as plain UDP. The session fails, and a new one
// by the same text reaches it.
func TestReconnect(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	first := listen(t, "127.0.0.1:0", cfg)
	text := first.LocalAddr().String()
	stop, _, _ := serve(t, first)

	var last erpc.SessionEvent
	nexus, err := erpc.NewNexus(erpc.Config{OnSession: func(_ *erpc.Rpc, _ *erpc.Session,
		ev erpc.SessionEvent) {
		last = ev
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer nexus.Close()
	rpc, err := nexus.NewRpc(listen(t, "127.0.0.1:0", cfg))
	if err != nil {
		t.Fatal(err)
	}
	defer rpc.Close()
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(3 * patience); !done(); {
			if time.Now().After(end) {
				t.Fatal(what)
			}
			if err := rpc.RunFor(time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func(shared bool) *erpc.Session {
		t.Helper()
		s, err := rpc.CreateSession(text)
		if err != nil {
			t.Fatal(err)
		}
		until("session does not open", s.Connected)
		if peer := s.Peer(); shm.IsAddr(&peer) != shared {
			t.Fatalf("session to %v", peer)
		}
		return s
	}
	s := open(true)
	big := s.Params().PerPacket
	stop()
	until("session does not end",
		func() bool { return last != erpc.SessionConnected && s.Err() != nil })

	stop, _, _ = serve(t, listenUDP(t, text))
	defer stop()
	if s = open(false); s.Params().PerPacket >= big {
		t.Errorf("packets of %d bytes over UDP, %d over shared memory", s.Params().PerPacket, big)
	}
}
