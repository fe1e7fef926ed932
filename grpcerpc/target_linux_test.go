package grpcerpc_test

import (
	"fmt"
	"os"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
)

// TestSharedMemoryTarget: an address of shared memory is a target as servers print it.
func TestSharedMemoryTarget(t *testing.T) {
	checkLeaks(t)
	name := fmt.Sprintf("grpcerpc-test-%d", os.Getpid())
	tr, err := shm.Listen(name, shm.Config{})
	is(t, "listen", err, codes.OK)
	open := func() (transport.Transport, error) { return shm.Listen("", shm.Config{}) }
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, newGreeter())
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	cc := connect(t, "shm:"+name, grpcerpc.WithTransport(open))
	_, err = pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	is(t, "close", cc.Close(), codes.OK)
	s.Stop()
	is(t, "Serve", eventually(t, served, "Serve"), codes.OK)
}
