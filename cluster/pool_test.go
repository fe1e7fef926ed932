package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// answering runs a server with a handler, and returns its address.
func answering(t *testing.T, cfg erpc.Config, fn erpc.Func) string {
	t.Helper()
	s, err := erpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Handle(1, fn); err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	addr := tr.LocalAddr().String()
	go func() { _ = s.Serve(tr) }()
	t.Cleanup(func() { _ = s.Close() })
	return addr
}

// TestPoolRefused: a call that may be repeated goes on to another server if one may not serve, and
// to none if its handler has answered, with whatever error.
func TestPoolRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var refused, failed, served atomic.Int64
	list := []Entry{
		{Addr: answering(t, erpc.Config{}, func(context.Context, []byte) ([]byte, error) {
			refused.Add(1)
			return nil, Refusal(ErrLapsed)
		})},
		{Addr: answering(t, erpc.Config{}, func(_ context.Context, request []byte) ([]byte, error) {
			if len(request) > 0 {
				failed.Add(1)
				return nil, &erpc.Error{Code: erpc.CodeUnavailable, Text: "it has run"}
			}
			served.Add(1)
			return nil, nil
		})},
	}
	s := make(script)
	r, err := NewResolver(s, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s <- view(list...)
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := erpc.NewLoop(tr, erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loop.Close() }()
	p, err := r.Pool(ctx, erpc.PoolConfig{}, loop)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for ready := 0; ready < 2; {
		ready = 0
		for _, s := range p.Servers() {
			if s.State == erpc.ServerReady {
				ready++
			}
		}
		if err := p.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	repeat := erpc.CallOptions{Repeat: true}
	for range 20 {
		if _, err := p.CallWith(ctx, repeat, nil, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if refused.Load() == 0 || served.Load() != 20 {
		t.Errorf("%d calls were refused, %d served", refused.Load(), served.Load())
	}
	for range 20 {
		_, err := p.CallWith(ctx, repeat, nil, 1, []byte("fail"))
		var answer *erpc.Error
		if !errors.As(err, &answer) || answer.Text != "it has run" {
			t.Fatal(err)
		}
	}
	if failed.Load() != 20 {
		t.Errorf("calls that have run were repeated: %d for 20", failed.Load())
	}
	once := 0
	for range 20 {
		if _, err := p.Call(ctx, 1, nil); Refused(err) {
			once++
		}
	}
	if once == 0 {
		t.Error("a call that may not be repeated was")
	}
}
