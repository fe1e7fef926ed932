package grpcerpc_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestHandlerReturns: goroutines that a handler leaves behind, one in RecvMsg and one in SendMsg,
// are told when it has returned: as grpc-go tells them, which serves the same over TCP.
func TestHandlerReturns(t *testing.T) {
	type told struct {
		what string
		err  error
	}
	errs := make(chan told, 3)
	leave := func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		if err := ss.RecvMsg(new(pb.HelloRequest)); err != nil {
			return err
		}
		go func() { errs <- told{"RecvMsg", ss.RecvMsg(new(pb.HelloRequest))} }()
		go func() {
			var err error
			for err == nil { // nobody reads so much
				err = ss.SendMsg(&pb.HelloReply{Payload: make([]byte, 1<<20)})
			}
			errs <- told{"SendMsg", err}
		}()
		go func() {
			<-ss.Context().Done()
			errs <- told{"its context", status.FromContextError(ss.Context().Err()).Err()}
		}()
		return nil
	}
	r := newRig(t, nil, grpcerpc.StreamInterceptor(leave))
	tcp, err := grpc.NewClient("passthrough:///"+serveTCP(t, r.server),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	is(t, "dial", err, codes.OK)
	defer func() { _ = tcp.Close() }()
	for name, cc := range map[string]grpc.ClientConnInterface{"grpc-go": tcp, "grpcerpc": r.cc} {
		for range 20 {
			s, err := pb.NewGreeterClient(cc).Chat(within(t))
			is(t, "begin", err, codes.OK)
			is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
			for range 3 {
				got := eventually(t, errs, name)
				is(t, name+": "+got.what, got.err, codes.Canceled)
			}
		}
	}
}
