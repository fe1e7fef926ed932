package erpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestPoolPaths: with Paths a server is called from as many ports, and it leaves with all of its
// sessions.
func TestPoolPaths(t *testing.T) {
	var loops []*erpc.Loop
	for range 4 {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		is(t, "listen", err, nil)
		l, err := erpc.NewLoop(tr, erpc.Config{})
		is(t, "loop", err, nil)
		defer func() { _ = l.Close() }()
		loops = append(loops, l)
	}
	serve := func(cfg erpc.Config, fn erpc.Func) string {
		s, err := erpc.NewServer(cfg)
		is(t, "server", err, nil)
		is(t, "handle", s.Handle(1, fn), nil)
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		is(t, "listen", err, nil)
		addr := tr.LocalAddr().String()
		go func() { _ = s.Serve(tr) }()
		t.Cleanup(func() { _ = s.Close() })
		return addr
	}
	whence := func(name string) erpc.Func {
		return func(ctx context.Context, _ []byte) ([]byte, error) {
			h, _ := erpc.HandleFrom(ctx)
			peer := h.Peer()
			return []byte(name + " " + peer.String()), nil
		}
	}
	a, b := serve(erpc.Config{}, whence("a")), serve(erpc.Config{}, whence("b"))
	for _, paths := range []int{-1, 5} {
		_, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{a}, Paths: paths}, loops...)
		is(t, "paths of which there are not as many", err, erpc.ErrConfig)
	}
	p, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{a, b}, Paths: 3}, loops...)
	is(t, "pool", err, nil)
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ready := func(n int) {
		t.Helper()
		for ready := 0; ready != n; {
			is(t, "waiting", ctx.Err(), nil)
			ready = 0
			for _, s := range p.Servers() {
				if s.State == erpc.ServerReady {
					ready++
				}
			}
			is(t, "ready", p.Ready(t.Context()), nil)
		}
	}
	ask := func() map[string]int {
		t.Helper()
		from := map[string]int{}
		for range 60 {
			who, err := p.Call(t.Context(), 1, nil)
			is(t, "a call", err, nil)
			from[string(who)]++
		}
		return from
	}
	ready(6)
	if got := ask(); len(got) != 6 {
		t.Errorf("two servers by three paths each: %v", got)
	}
	is(t, "one of them alone", p.SetServers([]string{b}, nil), nil)
	ready(3)
	for open := 0; open != 3; { // the sessions with the other one are closed
		is(t, "waiting", ctx.Err(), nil)
		open = 0
		for _, l := range loops {
			n := make(chan int)
			is(t, "a look", l.Post(func(r *erpc.Rpc) { n <- r.Sessions() }), nil)
			open += <-n
		}
		is(t, "ready", p.Ready(t.Context()), nil)
	}
	for who, n := range ask() {
		if who[0] != 'b' || n < 10 {
			t.Errorf("%d calls by %s", n, who)
		}
	}
}
