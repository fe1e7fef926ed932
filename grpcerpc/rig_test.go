package grpcerpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// hang bounds what must happen at once; only a test that hangs waits so long.
const hang = 5 * time.Minute

// greeter is the service of the tests. Names ask for what it does.
type greeter struct {
	pb.UnimplementedGreeterServer
	began   chan context.Context // gets the context of each "wait"
	release chan struct{}        // closed: they return
}

func newGreeter() *greeter {
	return &greeter{began: make(chan context.Context, 1000), release: make(chan struct{})}
}

func (g *greeter) wait(ctx context.Context) error {
	g.began <- ctx
	select {
	case <-g.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *greeter) SayHello(ctx context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	switch in.Name {
	case "fail":
		st, _ := status.New(codes.NotFound, "no such name ✗").WithDetails(in)
		return nil, st.Err()
	case "plain error":
		return nil, errors.New("plain")
	case "panic":
		panic("on purpose")
	case "wait":
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	case "metadata":
		in, _ := metadata.FromIncomingContext(ctx)
		md := metadata.Pairs("one", in.Get("one")[0], "one", "b")
		if err := grpc.SetHeader(ctx, md); err != nil {
			return nil, err
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("two-bin", in.Get("two-bin")[0])); err != nil {
			return nil, err
		}
		for _, k := range []string{":authority", "user-agent", "content-type"} {
			md := metadata.Pairs("got-"+strings.Trim(k, ":"), in.Get(k)[0])
			if err := grpc.SetHeader(ctx, md); err != nil {
				return nil, err
			}
		}
	}
	return &pb.HelloReply{Message: "Hello " + in.Name, Payload: make([]byte, in.Times)}, nil
}

func (g *greeter) SayHelloAgain(
	in *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	if in.Name == "wait" {
		return g.wait(s.Context())
	}
	for range in.Times {
		if err := s.Send(&pb.HelloReply{Message: in.Name, Payload: in.Payload}); err != nil {
			return err
		}
	}
	s.SetTrailer(metadata.Pairs("sent", "all"))
	return nil
}

func (g *greeter) Collect(s grpc.ClientStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	var all strings.Builder
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return s.SendAndClose(&pb.HelloReply{Message: all.String()})
		}
		if err != nil {
			return err
		}
		if in.Name == "enough" {
			return status.Error(codes.FailedPrecondition, "enough")
		}
		if in.Name == "wait" {
			if err := g.wait(s.Context()); err != nil {
				return err
			}
		}
		all.WriteString(in.Name)
	}
}

func (g *greeter) Chat(s grpc.BidiStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch in.Name {
		case "wait":
			if err := g.wait(s.Context()); err != nil {
				return err
			}
		case "fail":
			return status.Error(codes.Aborted, "on purpose")
		}
		if err := s.Send(&pb.HelloReply{Message: "Hello " + in.Name, Payload: in.Payload}); err != nil {
			return err
		}
	}
}

// rig is a server, its address, and a client of it.
type rig struct {
	*greeter
	server *grpcerpc.Server
	addr   string
	cc     *grpcerpc.ClientConn
	client pb.GreeterClient
}

// checkLeaks fails the test if goroutines are left when its clean-ups have run. Call it first.
func checkLeaks(t testing.TB) {
	t.Helper()
	opt := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, opt) })
}

func overUDP() (transport.Transport, error) { return udp.Listen("127.0.0.1:0", udp.Config{}) }

func newRig(
	t testing.TB, dial []grpcerpc.DialOption, opts ...grpcerpc.ServerOption,
) *rig {
	t.Helper()
	checkLeaks(t)
	r := &rig{greeter: newGreeter()}
	r.server, r.addr = serve(t, r.greeter, opts...)
	r.cc = connect(t, "passthrough:///"+r.addr, dial...)
	r.client = pb.NewGreeterClient(r.cc)
	return r
}

// serve serves a greeter until the test ends.
func serve(
	t testing.TB, g pb.GreeterServer, opts ...grpcerpc.ServerOption,
) (*grpcerpc.Server, string) {
	t.Helper()
	s := grpcerpc.NewServer(opts...)
	pb.RegisterGreeterServer(s, g)
	tr, err := overUDP()
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { ranUntilStop(t, s.Serve(tr)) })
	t.Cleanup(func() {
		s.Stop()
		served.Wait()
	})
	return s, tr.LocalAddr().String()
}

// ranUntilStop checks the error of a server that was stopped, maybe before it began.
func ranUntilStop(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, grpcerpc.ErrStopped) {
		t.Errorf("Serve: %v", err)
	}
}

func connect(t testing.TB, target string, dial ...grpcerpc.DialOption) *grpcerpc.ClientConn {
	t.Helper()
	dial = append([]grpcerpc.DialOption{grpcerpc.WithTransport(overUDP)}, dial...)
	cc, err := grpcerpc.NewClient(target, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() }) // tests may close it
	return cc
}

// within is the context of a call that must not hang.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// eventually returns the result of ch, or fails the test if it does not come.
func eventually[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(hang):
		t.Fatalf("%s: nothing after %v", what, hang)
	}
	return v
}

// is fails the test if err has another code.
func is(t testing.TB, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// hurried gives up connecting soon.
var hurried = erpc.Config{Timing: erpc.Timing{ConnectTimeout: 200 * time.Millisecond}}

// upper is a codec that is not gRPC's own.
type upper struct{}

func (upper) Marshal(v any) ([]byte, error)      { return proto.Marshal(v.(proto.Message)) }
func (upper) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
func (upper) Name() string                       { return "upper" }

func init() { encoding.RegisterCodec(upper{}) }

func listenAt(addr string) (transport.Transport, error) { return udp.Listen(addr, udp.Config{}) }
