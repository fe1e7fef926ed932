package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport/auto"
)

// greeter is the service, as it would be with grpc-go.
type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(_ context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: "Hello " + in.GetName()}, nil
}

func main() {
	addr := flag.String("serve", "", "serve at this address")
	flag.Parse()
	var err error
	switch {
	case *addr != "":
		err = serve(*addr)
	case flag.NArg() == 2:
		err = greet(flag.Arg(0), flag.Arg(1))
	default:
		err = fmt.Errorf("use: helloworld -serve ADDRESS, or helloworld ADDRESS NAME")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(addr string) error {
	tr, err := auto.Listen(addr, auto.Config{})
	if err != nil {
		return err
	}
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, greeter{})
	return s.Serve(tr)
}

func greet(addr, name string) error {
	cc, err := grpcerpc.NewClient(addr)
	if err != nil {
		return err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := pb.NewGreeterClient(cc).SayHello(ctx, &pb.HelloRequest{Name: name})
	if err != nil {
		return err
	}
	fmt.Println(out.GetMessage())
	return nil
}
