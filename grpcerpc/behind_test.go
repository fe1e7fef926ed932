package grpcerpc_test

import (
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestMessageLeftBehind: SendMsg leaves a message behind that is larger than the window, and waits
// for the next one. A handler may return so, and its client reads all of it later, though the
// server stops gracefully meanwhile.
func TestMessageLeftBehind(t *testing.T) {
	const size = 1 << 20
	returned := make(chan error, 2)
	say := func(_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		returned <- ss.SendMsg(&pb.HelloReply{Payload: make([]byte, size)})
		return nil
	}
	r := newRig(t, nil, grpcerpc.StreamInterceptor(say))
	tcp, err := grpc.NewClient("passthrough:///"+serveTCP(t, r.server),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	is(t, "dial", err, codes.OK)
	defer func() { _ = tcp.Close() }()
	var streams []grpc.BidiStreamingClient[pb.HelloRequest, pb.HelloReply]
	for _, cc := range []grpc.ClientConnInterface{tcp, r.cc} {
		s, err := pb.NewGreeterClient(cc).Chat(within(t))
		is(t, "begin", err, codes.OK)
		large := &pb.HelloRequest{Payload: make([]byte, size)}
		is(t, "a message that nobody reads", s.Send(large), codes.OK)
		is(t, "SendMsg", eventually(t, returned, "the handler"), codes.OK)
		streams = append(streams, s)
	}
	stopped := make(chan bool)
	go func() {
		r.server.GracefulStop()
		close(stopped)
	}()
	for _, s := range streams {
		got, err := s.Recv()
		is(t, "the message", err, codes.OK)
		if len(got.Payload) != size {
			t.Errorf("%d bytes, want %d", len(got.Payload), size)
		}
		if _, err = s.Recv(); err != io.EOF {
			t.Errorf("the end: %v, want %v", err, io.EOF)
		}
	}
	eventually(t, stopped, "GracefulStop")
}
