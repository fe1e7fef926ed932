package grpcerpc_test

import (
	"context"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestCallContext: a handler finds in its context what gRPC puts there, and a context made from it
// ends with it.
func TestCallContext(t *testing.T) {
	derived := make(chan context.Context, 1)
	r := newRig(t, nil, grpcerpc.UnaryInterceptor(func(ctx context.Context, req any,
		_ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		p, ok := peer.FromContext(ctx)
		if !ok || p.Addr == nil || p.AuthInfo == nil {
			t.Errorf("peer: %v, %v", p, ok)
		}
		if m, ok := grpc.Method(ctx); !ok || m != "/helloworld.Greeter/SayHello" {
			t.Errorf("method: %q, %v", m, ok)
		}
		md, _ := metadata.FromIncomingContext(ctx)
		md.Set(":authority", "changed") // a copy
		if got := metadata.ValueFromIncomingContext(ctx, ":authority"); len(got) != 1 ||
			got[0] == "changed" {
			t.Errorf("authority: %q", got)
		}
		before := runtime.NumGoroutine()
		for range 100 {
			c, cancel := context.WithCancel(ctx)
			context.AfterFunc(ctx, cancel)
			select {
			case derived <- c:
			default:
			}
		}
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%d goroutines for 100 contexts", n)
		}
		return next(ctx, req)
	}))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "call", err, codes.OK)
	eventually(t, (<-derived).Done(), "the end of a context made from the handler's")
}

// TestAllocations: a unary call allocates little, on both sides together.
func TestAllocations(t *testing.T) {
	r := newRig(t, nil)
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	n := testing.AllocsPerRun(2000, func() {
		if _, err := r.client.SayHello(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	if most := 13.0; n > most && !raceEnabled {
		t.Errorf("%v allocations, want %v at most", n, most)
	}
}
