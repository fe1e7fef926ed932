package grpcerpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// relay calls the next server with its own context, and the last notes what time it has.
type relay struct {
	pb.UnimplementedGreeterServer
	next pb.GreeterClient // nil for the last
	left chan time.Duration
}

func (r *relay) note(ctx context.Context) {
	at, _ := ctx.Deadline()
	r.left <- time.Until(at)
}

func (r *relay) SayHello(ctx context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	if r.next == nil {
		r.note(ctx)
		return &pb.HelloReply{}, nil
	}
	return r.next.SayHello(ctx, in)
}

func (r *relay) SayHelloAgain(
	_ *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	r.note(s.Context())
	return nil
}

// TestDeadlines: a handler has no more time than its client had, also behind several servers, and
// not much less. Nothing here takes as long as a minute.
func TestDeadlines(t *testing.T) {
	checkLeaks(t)
	left := make(chan time.Duration, 1)
	var c pb.GreeterClient
	for range 8 {
		_, addr := serve(t, &relay{next: c, left: left})
		c = pb.NewGreeterClient(connect(t, addr))
	}
	far, cancel := context.WithDeadline(context.Background(), time.Date(9999, 1, 1, 0, 0, 0, 0,
		time.UTC))
	defer cancel()
	_, err := c.SayHello(far, &pb.HelloRequest{})
	is(t, "a call with a deadline that is far away", err, codes.OK)
	<-left
	const given = 9 * time.Hour
	check := func(what string) {
		t.Helper()
		if got := eventually(t, left, what); got > given || got < given-time.Minute {
			t.Errorf("%s: the handler has %v of %v", what, got, given)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), given)
	defer cancel()
	_, err = c.SayHello(ctx, &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	check("after eight servers")
	s, err := c.SayHelloAgain(ctx, &pb.HelloRequest{})
	is(t, "a stream", err, codes.OK)
	check("a stream")
	_, _ = drain(s.Recv)
}
