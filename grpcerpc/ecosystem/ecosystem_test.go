package ecosystem

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fullstorydev/grpcurl"
	"github.com/jhump/protoreflect/grpcreflect" //nolint:staticcheck // grpcurl's library takes it
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// greeter notes the trace that its calls belong to.
type greeter struct {
	pb.UnimplementedGreeterServer
	traces chan trace.TraceID
}

func (g *greeter) SayHello(ctx context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	g.traces <- trace.SpanContextFromContext(ctx).TraceID()
	return &pb.HelloReply{Message: "Hello " + in.Name}, nil
}

func (g *greeter) SayHelloAgain(in *pb.HelloRequest, s pb.Greeter_SayHelloAgainServer) error {
	g.traces <- trace.SpanContextFromContext(s.Context()).TraceID()
	return s.Send(&pb.HelloReply{Message: in.Name})
}

func overUDP() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }

// serve serves a greeter with reflection and health until the test ends, and returns its address.
func serve(t *testing.T, g pb.GreeterServer, opts ...grpcerpc.ServerOption) string {
	t.Helper()
	return serveAll(t, func(s grpc.ServiceRegistrar) {
		pb.RegisterGreeterServer(s, g)
		healthpb.RegisterHealthServer(s, health.NewServer())
		reflection.Register(s.(reflection.GRPCServer))
	}, opts...)
}

// serveAll serves what register registers until the test ends, and returns the address.
func serveAll(
	t testing.TB, register func(grpc.ServiceRegistrar), opts ...grpcerpc.ServerOption,
) string {
	t.Helper()
	tr, err := overUDP()
	if err != nil {
		t.Fatal(err)
	}
	s := grpcerpc.NewServer(opts...)
	register(s)
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
	return tr.LocalAddr().String()
}

// start serves a greeter, and returns it and a client.
func start(
	t *testing.T, dial []grpcerpc.DialOption, opts ...grpcerpc.ServerOption,
) (*greeter, *grpcerpc.ClientConn) {
	t.Helper()
	g := &greeter{traces: make(chan trace.TraceID, 10)}
	cc, err := grpcerpc.NewClient("passthrough:///"+serve(t, g, opts...),
		append(dial, grpcerpc.WithTransport(overUDP))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return g, cc
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestOpenTelemetry: otelgrpc's handlers make spans on both sides, which belong to one trace, for
// unary calls and streams, with the method's name and gRPC's code.
func TestOpenTelemetry(t *testing.T) {
	ended, kinds := make(spanEnds, 10), map[string]int{}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))
	opts := []otelgrpc.Option{
		otelgrpc.WithTracerProvider(tp), otelgrpc.WithPropagators(propagation.TraceContext{}),
	}
	g, cc := start(t,
		[]grpcerpc.DialOption{grpcerpc.WithStatsHandler(otelgrpc.NewClientHandler(opts...))},
		grpcerpc.StatsHandler(otelgrpc.NewServerHandler(opts...)))
	client := pb.NewGreeterClient(cc)
	for name, call := range map[string]func(context.Context) error{
		"SayHello": func(ctx context.Context) error {
			_, err := client.SayHello(ctx, &pb.HelloRequest{})
			return err
		},
		"SayHelloAgain": func(ctx context.Context) error {
			s, err := client.SayHelloAgain(ctx, &pb.HelloRequest{})
			for err == nil {
				_, err = s.Recv()
			}
			if err.Error() == "EOF" {
				err = nil
			}
			return err
		},
	} {
		ctx, span := tp.Tracer("test").Start(within(t), name)
		if err := call(ctx); err != nil {
			t.Fatal(name, err)
		}
		span.End()
		if got, want := <-g.traces, span.SpanContext().TraceID(); got != want {
			t.Errorf("%s: the handler is in trace %v, want %v", name, got, want)
		}
	}
	for range 4 { // a client's and a server's for each call
		select {
		case name := <-ended:
			if kinds[name]++; kinds[name] > 1 {
				t.Errorf("%q ended twice", name)
			}
		case <-within(t).Done():
			t.Fatalf("spans: %v", kinds)
		}
	}
}

// spanEnds tells the kind and the name of each span of the service that ends.
type spanEnds chan string

func (c spanEnds) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (c spanEnds) OnEnd(s sdktrace.ReadOnlySpan) {
	if strings.HasPrefix(s.Name(), "helloworld.Greeter/") {
		c <- s.SpanKind().String() + " " + s.Name()
	}
}

func (c spanEnds) Shutdown(context.Context) error   { return nil }
func (c spanEnds) ForceFlush(context.Context) error { return nil }

// TestGrpcurl: grpcurl's library lists services by reflection, and calls methods with JSON, also
// that of health.
func TestGrpcurl(t *testing.T) {
	g, cc := start(t, nil)
	ctx := within(t)
	client := grpcreflect.NewClientAuto(ctx, cc)
	defer client.Reset()
	source := grpcurl.DescriptorSourceFromServer(ctx, client)
	list, err := grpcurl.ListServices(source)
	if err != nil || !slices.Contains(list, "helloworld.Greeter") {
		t.Fatal(list, err)
	}
	for method, json := range map[string][2]string{
		"helloworld.Greeter/SayHello":      {`{"name": "grpcurl"}`, "Hello grpcurl"},
		"grpc.health.v1.Health/Check":      {`{}`, "SERVING"},
		"helloworld.Greeter/SayHelloAgain": {`{"name": "more"}`, "more"},
	} {
		parser, formatter, err := grpcurl.RequestParserAndFormatter(
			grpcurl.FormatJSON, source, strings.NewReader(json[0]), grpcurl.FormatOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		h := &grpcurl.DefaultEventHandler{Out: &out, Formatter: formatter}
		err = grpcurl.InvokeRPC(ctx, source, cc, method, nil, h, parser.Next)
		if err != nil || h.Status.Code() != codes.OK || !strings.Contains(out.String(), json[1]) {
			t.Errorf("%s: %v, %v, %s", method, err, h.Status, &out)
		}
	}
	<-g.traces
	<-g.traces
}

// nameSayer answers with its name.
type nameSayer struct {
	pb.UnimplementedGreeterServer
	name string
}

func (n nameSayer) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: n.name}, nil
}
