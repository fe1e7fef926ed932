package grpcerpc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// answers are a hostile server's answers to requests, by their type.
type answers map[uint8]func(context.Context, []byte) ([]byte, error)

// serve serves until the test ends, and returns the address.
func (a answers) serve(t *testing.T) string {
	t.Helper()
	tr, err := overUDP()
	is(t, "listen", err, codes.OK)
	s, err := erpc.NewServer(erpc.Config{})
	is(t, "server", err, codes.OK)
	for typ, answer := range a {
		is(t, "handle", s.Handle(typ, answer), codes.OK)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(tr) })
	t.Cleanup(func() {
		_ = s.Close()
		served.Wait()
	})
	return tr.LocalAddr().String()
}

// mute does not answer.
func mute(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestHostileMute: a server that does not answer Hello keeps its client from no other one, and a
// call that has no other one ends.
func TestHostileMute(t *testing.T) {
	checkLeaks(t)
	var hellos atomic.Int32
	first := answers{frame.TypeHello: func(ctx context.Context, req []byte) ([]byte, error) {
		hellos.Add(1)
		return mute(ctx, req)
	}}.serve(t)
	_, second := serve(t, newGreeter())
	for target, want := range map[string]codes.Code{
		"static:///" + first + "," + second: codes.OK,
		"static:///" + first:                codes.Unavailable,
	} {
		cc := connect(t, target)
		cc.HelloWithin(100 * time.Millisecond)
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{},
			grpc.WaitForReady(want == codes.OK)) // the second one may need more time too
		is(t, target, err, want)
		if hellos.Swap(0) == 0 {
			t.Errorf("%s: the mute server was not asked", target)
		}
	}
}

// TestHostileRefuses: a call is tried so often and no more at a server that says each time that it
// did not run.
func TestHostileRefuses(t *testing.T) {
	checkLeaks(t)
	var calls atomic.Int32
	addr := answers{
		frame.TypeHello: func(context.Context, []byte) ([]byte, error) {
			w := frame.Welcome{Version: frame.Version, Token: 1}
			return w.Append(nil), nil
		},
		frame.TypeLife: mute,
		frame.TypeUnary: func(context.Context, []byte) ([]byte, error) {
			calls.Add(1)
			a := frame.Answer{Status: frame.Status{Code: uint64(codes.Unavailable)}, NotRun: true}
			return a.AppendHead(nil), nil
		},
	}.serve(t)
	c := pb.NewGreeterClient(connect(t, addr))
	_, err := c.SayHello(within(t), &pb.HelloRequest{}, grpc.WaitForReady(true))
	is(t, "a call", err, codes.Unavailable)
	if n := calls.Load(); n != 5 {
		t.Errorf("tried %d times", n)
	}
}
