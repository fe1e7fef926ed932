package ecosystem

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	load "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// loads holds the loads of servers that a balancer has learned.
type loads chan any

func (l loads) Build(info base.PickerBuildInfo) balancer.Picker {
	for sc := range info.ReadySCs {
		return loadPicker{sc, l}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type loadPicker struct {
	balancer.SubConn
	loads
}

func (p loadPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.SubConn, Done: func(info balancer.DoneInfo) {
		p.loads <- info.ServerLoad
	}}, nil
}

// trailing sends reports of load in the trailers of its calls.
type trailing struct {
	pb.UnimplementedGreeterServer
	reports atomic.Pointer[[]string]
}

func (r *trailing) trailer() metadata.MD {
	return metadata.MD{"endpoint-load-metrics-bin": *r.reports.Load()}
}

func (r *trailing) SayHello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{}, grpc.SetTrailer(ctx, r.trailer())
}

func (r *trailing) SayHelloAgain(_ *pb.HelloRequest, s pb.Greeter_SayHelloAgainServer) error {
	s.SetTrailer(r.trailer())
	return nil
}

// TestServerLoad: a balancer learns the load that the trailer of a call or a stream reports, and
// none if there is not one whole report.
func TestServerLoad(t *testing.T) {
	learned := make(loads, 1)
	balancer.Register(base.NewBalancerBuilder("loads", learned, base.Config{}))
	server := &trailing{}
	client := dial(t, `{"loads": {}}`, serve(t, server))
	good, err := proto.Marshal(&load.OrcaLoadReport{CpuUtilization: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for name, reports := range map[string][]string{
		"none": nil, "one": {string(good)}, "two": {string(good), string(good)},
		"malformed": {"\xff\xff"}, "cut off": {string(good[:4])},
	} {
		server.reports.Store(&reports)
		if _, err := client.SayHello(within(t), &pb.HelloRequest{}); err != nil {
			t.Fatal(name, err)
		}
		calls := []any{<-learned}
		stream, err := client.SayHelloAgain(within(t), &pb.HelloRequest{})
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := stream.Recv(); err == nil {
			t.Error(name, "the stream has a message")
		}
		for _, got := range append(calls, <-learned) {
			report, ok := got.(*load.OrcaLoadReport)
			if ok != (name == "one") || ok && report.CpuUtilization != 0.5 {
				t.Errorf("%s: %s", name, fmt.Sprint(got))
			}
		}
	}
}
