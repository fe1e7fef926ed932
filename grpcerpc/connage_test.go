package grpcerpc_test

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// hello makes a call that succeeds.
func (r *rig) hello(t *testing.T, what string) {
	t.Helper()
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, what, err, codes.OK)
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v", what, hang)
		}
	}
}

// counts checks what Conns says.
func (r *rig) counts(t *testing.T, what string, all, leaving int) {
	t.Helper()
	if a, l, _ := r.server.Conns(); a != all || l != leaving {
		t.Fatalf("%s: %d connections, of which %d shall go, want %d and %d", what, a, l, all, leaving)
	}
}

// aging returns a rig whose server has a clock and keepalive parameters.
func aging(t *testing.T, p keepalive.ServerParameters) (*rig, *grpcerpc.FakeClock) {
	clock := grpcerpc.NewFakeClock()
	return newRig(t, nil, grpcerpc.ServerClock(clock), grpcerpc.KeepaliveParams(p)), clock
}

// TestMaxConnectionAge: a connection of that age, a tenth more or less, takes no new calls; those
// under way end as they would, and new ones go to another connection.
func TestMaxConnectionAge(t *testing.T) {
	r, clock := aging(t, keepalive.ServerParameters{MaxConnectionAge: 1000 * time.Second})
	s, err := r.client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	clock.Advance(899 * time.Second)
	r.counts(t, "a young one", 1, 0)
	clock.Advance(202 * time.Second)
	r.counts(t, "an old one", 1, 1)
	if !r.cc.WaitForStateChange(within(t), connectivity.Ready) {
		t.Error("the client was not told")
	}
	r.hello(t, "a call on another one")
	r.counts(t, "both", 2, 1)
	clock.Advance(100 * time.Second) // no grace is for ever
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err = s.Recv(); err != io.EOF {
		t.Errorf("the stream's end: %v", err)
	}
	until(t, "the old one's end", func() bool { all, _, _ := r.server.Conns(); return all == 1 })
}

// TestMaxConnectionAgeGrace: calls that are under way after it end with Unavailable, and the
// contexts of their handlers with Canceled.
func TestMaxConnectionAgeGrace(t *testing.T) {
	r, clock := aging(t, keepalive.ServerParameters{MaxConnectionAge: 1000 * time.Second,
		MaxConnectionAgeGrace: 500 * time.Second})
	s, err := r.client.Collect(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
	first := eventually(t, r.began, "the stream's handler")
	unary := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		unary <- err
	}()
	second := eventually(t, r.began, "the call's handler")
	clock.Advance(1101 * time.Second)
	clock.Advance(298 * time.Second)
	for _, ctx := range []context.Context{first, second} {
		if ctx.Err() != nil {
			t.Error("a handler's context ended before")
		}
	}
	clock.Advance(202 * time.Second)
	for _, ctx := range []context.Context{first, second} {
		eventually(t, ctx.Done(), "the end of a handler's context")
		if ctx.Err() != context.Canceled {
			t.Errorf("a handler's context: %v", ctx.Err())
		}
	}
	_, err = s.CloseAndRecv()
	is(t, "the stream", err, codes.Unavailable)
	is(t, "the call", eventually(t, unary, "the call"), codes.Unavailable)
}

// TestMaxConnectionIdle: a connection ends when it has had no call for so long, and the client
// connects anew for the next one.
func TestMaxConnectionIdle(t *testing.T) {
	r, clock := aging(t, keepalive.ServerParameters{MaxConnectionIdle: time.Hour})
	quiet := func() bool { _, _, calls := r.server.Conns(); return calls == 0 }
	ended := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		ended <- err
	}()
	eventually(t, r.began, "the handler")
	clock.Advance(3 * time.Hour)
	r.counts(t, "one with a long call", 1, 0)
	close(r.release)
	is(t, "the call", eventually(t, ended, "the call"), codes.OK)
	until(t, "the call's end", quiet)
	clock.Advance(time.Hour - 1)
	r.counts(t, "one that was idle for less", 1, 0)
	r.hello(t, "a call")
	until(t, "its end", quiet)
	clock.Advance(time.Hour - 1)
	r.counts(t, "one with a call meanwhile", 1, 0)
	clock.Advance(1)
	if !r.cc.WaitForStateChange(within(t), connectivity.Ready) {
		t.Error("the client was not told")
	}
	until(t, "its end", func() bool { all, _, _ := r.server.Conns(); return all == 0 })
	r.hello(t, "a call on another one")
}

// TestAgeUnderLoad: no call fails when connections end for their age, again and again.
func TestAgeUnderLoad(t *testing.T) {
	r, clock := aging(t, keepalive.ServerParameters{MaxConnectionAge: time.Second})
	done := make(chan struct{})
	var work sync.WaitGroup
	var calls atomic.Int64
	load := func(what string, call func() error) {
		for range 8 {
			work.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if err := call(); err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
					calls.Add(1)
				}
			})
		}
	}
	load("a call", func() error {
		_, err := r.client.SayHello(t.Context(), &pb.HelloRequest{})
		return err
	})
	load("a stream", func() error {
		s, err := r.client.SayHelloAgain(t.Context(), &pb.HelloRequest{Times: 3})
		n := 0
		for ; err == nil; n++ {
			_, err = s.Recv()
		}
		if err == io.EOF && n == 4 {
			return nil
		}
		return err
	})
	for range 50 {
		before := calls.Load()
		until(t, "calls", func() bool {
			_, leaving, _ := r.server.Conns()
			return calls.Load() > before+20 && leaving == 0 || t.Failed()
		})
		clock.Advance(1100 * time.Millisecond)
	}
	close(done)
	work.Wait()
}

// sent counts calls whose request is on its way.
type sent struct {
	stats.Handler
	n atomic.Int64
}

func (*sent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*sent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*sent) HandleConn(context.Context, stats.ConnStats)                       {}

func (s *sent) HandleRPC(_ context.Context, r stats.RPCStats) {
	if _, ok := r.(*stats.OutPayload); ok {
		s.n.Add(1)
	}
}

// TestGracefulStopServesSent: a server that stops gracefully serves the calls and streams that its
// clients had sent before, those too that come later.
func TestGracefulStopServesSent(t *testing.T) {
	const each = 500
	on := new(sent)
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithStatsHandler(on)})
	r.hello(t, "a connection")
	on.n.Store(0)
	ended := make(chan error, 2*each)
	in := &pb.HelloRequest{Times: 2, Payload: make([]byte, 2000)}
	for range each {
		go func() {
			_, err := r.client.SayHello(within(t), in)
			ended <- err
		}()
		go func() {
			s, err := r.client.SayHelloAgain(within(t), in)
			for err == nil {
				_, err = s.Recv()
			}
			if err == io.EOF {
				err = nil
			}
			ended <- err
		}()
	}
	until(t, "the calls", func() bool { return on.n.Load() == 2*each })
	r.server.GracefulStop()
	for range 2 * each {
		is(t, "a call", eventually(t, ended, "a call"), codes.OK)
	}
}

// TestHostileStays: a client that does not go when it is told to is served for a while, then its
// calls are refused as such that never ran, and the connection ends with the last one.
func TestHostileStays(t *testing.T) {
	clock := grpcerpc.NewFakeClock()
	r := newRig(t, nil, grpcerpc.ServerClock(clock))
	h := newHostile(t, r)
	token := binary.LittleEndian.AppendUint64(nil, h.token)
	is(t, "life", h.Start(frame.TypeLife, token, func([]byte, error) {}), codes.OK)
	told := make(chan error, 1)
	is(t, "leave", h.Start(frame.TypeLeave, token, func(_ []byte, err error) { told <- err }),
		codes.OK)
	until(t, "life", func() bool { all, _, _ := r.server.Conns(); return all == 1 })
	head := frame.Head{Method: []byte("/helloworld.Greeter/SayHello")}
	if got := h.unary(head); got != codes.OK {
		t.Errorf("a call: %v", got)
	}
	stopped := make(chan struct{})
	go func() {
		r.server.GracefulStop()
		close(stopped)
	}()
	is(t, "the notice", eventually(t, told, "the notice"), codes.OK)
	if got := h.unary(head); got != codes.OK {
		t.Errorf("a call after the notice: %v", got)
	}
	select {
	case <-stopped:
		t.Error("GracefulStop did not wait for the client")
	default:
	}
	clock.Advance(time.Minute)
	eventually(t, stopped, "GracefulStop")
}
