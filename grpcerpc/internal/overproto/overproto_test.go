package overproto_test

import (
	"context"
	"testing"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/overproto"
	"github.com/userspace-rpc/erpc/transport/udp"
)

type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: "hello"}, nil
}

// TestRegistered: a codec that a program registers over grpc's own for protobuf sees each message
// of both sides, also when its package begins before grpcerpc does.
func TestRegistered(t *testing.T) {
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, greeter{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	cc, err := grpcerpc.NewClient("passthrough:///" + tr.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	reply, err := pb.NewGreeterClient(cc).SayHello(context.Background(), &pb.HelloRequest{Name: "x"})
	if err != nil || reply.Message != "hello" {
		t.Fatalf("%v, %v", reply, err)
	}
	if e, d := overproto.Encoded.Load(), overproto.Decoded.Load(); e != 2 || d != 2 {
		t.Errorf("the codec encoded %d messages and decoded %d; a call has two", e, d)
	}
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	s.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
