package grpcerpc_test

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// interopCases are grpc-go's own conformance cases.
var interopCases = map[string]func(context.Context, testpb.TestServiceClient, ...grpc.CallOption){
	"empty unary": interop.DoEmptyUnaryCall, "large unary": interop.DoLargeUnaryCall,
	"client streaming": interop.DoClientStreaming, "server streaming": interop.DoServerStreaming,
	"ping-pong": interop.DoPingPong, "empty stream": interop.DoEmptyStream,
	"timeout on sleeping server": interop.DoTimeoutOnSleepingServer,
	"cancel after begin":         interop.DoCancelAfterBegin,
	"cancel after first":         interop.DoCancelAfterFirstResponse,
	"custom metadata":            interop.DoCustomMetadata,
	"status and message":         interop.DoStatusCodeAndMessage,
	"special status message":     interop.DoSpecialStatusMessage,
	"unimplemented method": func(
		ctx context.Context, _ testpb.TestServiceClient, _ ...grpc.CallOption,
	) {
		interop.DoUnimplementedMethod(ctx, ctx.Value(connKey{}).(*grpc.ClientConn))
	},
	"unimplemented service": func(
		ctx context.Context, _ testpb.TestServiceClient, _ ...grpc.CallOption,
	) {
		cc := ctx.Value(connKey{}).(*grpc.ClientConn)
		interop.DoUnimplementedService(ctx, testpb.NewUnimplementedServiceClient(cc))
	},
}

type connKey struct{}

// interopRig serves grpc-go's test service and returns a client of it.
func interopRig(t *testing.T, open func() (transport.Transport, error)) *grpcerpc.ClientConn {
	checkLeaks(t)
	s := grpcerpc.NewServer()
	testpb.RegisterTestServiceServer(s, interop.NewTestServer())
	h := health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	tr, err := open()
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(tr); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Stop()
		served.Wait()
	})
	return connect(t, tr.LocalAddr().String(), grpcerpc.WithTransport(open))
}

// TestInterop runs grpc-go's conformance cases. They end the process when they fail.
func TestInterop(t *testing.T) {
	lossy := func() (transport.Transport, error) {
		c, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			return nil, err
		}
		return faulty.New(c, faulty.Config{Seed: 1, TX: faulty.Faults{Loss: 0.02}})
	}
	for name, v := range map[string]struct {
		open func() (transport.Transport, error)
		opts []grpc.CallOption
	}{
		"plain": {open: overUDP}, "gzip": {overUDP, []grpc.CallOption{grpc.UseCompressor("gzip")}},
		"loss": {open: lossy},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "plain" && testing.Short() {
				t.Skip("long")
			}
			cc := interopRig(t, v.open)
			ctx := context.WithValue(within(t), connKey{}, cc.GRPC())
			client := testpb.NewTestServiceClient(cc)
			var all sync.WaitGroup
			for _, run := range interopCases {
				all.Go(func() { run(ctx, client, v.opts...) })
			}
			all.Wait()
		})
	}
}

// TestHealthAndReflection: grpc-go's health and reflection services answer.
func TestHealthAndReflection(t *testing.T) {
	cc := interopRig(t, overUDP)
	out, err := healthpb.NewHealthClient(cc).Check(within(t), &healthpb.HealthCheckRequest{})
	if err != nil || out.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(out, err)
	}
	s, err := reflectpb.NewServerReflectionClient(cc).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Send(&reflectpb.ServerReflectionRequest{
		MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Recv()
	if err != nil || len(list.GetListServicesResponse().GetService()) != 4 {
		t.Fatal(list, err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Recv()
}
