package grpcerpc_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// careless has handlers that pass over errors, and one whose status has a text that is no UTF-8.
type careless struct{ pb.UnimplementedGreeterServer }

func (careless) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	st, err := status.New(codes.Internal, "a\xff\xfe✗").WithDetails(&pb.HelloRequest{})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

func (careless) SayHelloAgain(
	in *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	_ = s.Send(&pb.HelloReply{Message: "before"})
	if s.SendMsg("no message") == nil || s.Send(&pb.HelloReply{}) == nil {
		return nil
	}
	return status.Error(codes.NotFound, "of the handler")
}

func (careless) Collect(s grpc.ClientStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	if _, err := s.Recv(); err == nil {
		return nil
	}
	return status.Error(codes.NotFound, "of the handler")
}

// TestHandlerEdges: what handlers pass over reaches clients as from grpc-go.
func TestHandlerEdges(t *testing.T) {
	both(t, careless{}, "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		r.InitialState(at(addr, nil))
		_, err := c.SayHello(within(t), &pb.HelloRequest{})
		st := status.Convert(err)
		if st.Message() != "a\ufffd\ufffd✗" || len(st.Details()) != 0 {
			t.Errorf("a text that is no UTF-8: %q, %v", st.Message(), st.Details())
		}
		again, err := c.SayHelloAgain(within(t), &pb.HelloRequest{})
		is(t, "begin", err, codes.OK)
		if m, err := again.Recv(); err != nil || m.Message != "before" {
			t.Errorf("the message before: %v, %v", m, err)
		}
		_, err = again.Recv()
		is(t, "a message that cannot be encoded", err, codes.Internal)
		collect, err := c.Collect(within(t))
		is(t, "begin", err, codes.OK)
		_ = collect.Send(&pb.HelloRequest{Name: string(make([]byte, 5<<20))})
		_, err = collect.CloseAndRecv()
		is(t, "a message that is too large", err, codes.ResourceExhausted)
	})
}

// TestSecondAnswer: a handler of streams that answers a unary call twice learns nothing of it, and
// the call fails.
func TestSecondAnswer(t *testing.T) {
	r := newRig(t, nil, grpcerpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for range 2 {
			if err := s.SendMsg(&pb.HelloReply{}); err != nil {
				t.Errorf("SendMsg: %v", err)
			}
		}
		return nil
	}))
	err := r.cc.Invoke(within(t), "/any.Service/Method", &pb.HelloRequest{}, &pb.HelloReply{})
	is(t, "two answers", err, codes.Internal)
}

// TestConnectingBeforeResolved: a ClientConn whose resolver has said nothing yet connects.
func TestConnectingBeforeResolved(t *testing.T) {
	checkLeaks(t)
	r := manual.NewBuilderWithScheme("mine")
	cc := connect(t, "mine:///x", grpcerpc.WithResolvers(r))
	if s := cc.GetState(); s != connectivity.Idle {
		t.Errorf("at first %v", s)
	}
	cc.Connect()
	if s := cc.GetState(); s != connectivity.Connecting {
		t.Errorf("after Connect %v", s)
	}
}

// TestMethodWithoutSlash: no server has a method of such a name.
func TestMethodWithoutSlash(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{"name", "/name", ""} {
		err := r.cc.Invoke(within(t), name, &pb.HelloRequest{}, &pb.HelloReply{})
		is(t, fmt.Sprintf("%q", name), err, codes.Unimplemented)
	}
}
