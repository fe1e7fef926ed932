package grpcerpc_test

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// retries is a service config that has streams tried four times.
const retries = `{"methodConfig": [{"name": [{"service": "helloworld.Greeter"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.01s", "backoffMultiplier": 2,
	"retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// unsteady fails streams until there were enough of them, before or after its first answer.
type unsteady struct {
	pb.UnimplementedGreeterServer
	streams atomic.Int32
	enough  atomic.Int32
	late    atomic.Bool // it answers before it fails
}

func (u *unsteady) fails(send func(*pb.HelloReply) error) error {
	if u.streams.Add(1) >= u.enough.Load() {
		return nil
	}
	if u.late.Load() {
		if err := send(&pb.HelloReply{Message: "first"}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "not yet")
}

func (u *unsteady) SayHelloAgain(
	in *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	if err := u.fails(s.Send); err != nil {
		return err
	}
	for range in.Times {
		if err := s.Send(&pb.HelloReply{Message: in.Name}); err != nil {
			return err
		}
	}
	return nil
}

func (u *unsteady) Chat(s grpc.BidiStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if err := u.fails(s.Send); err != nil {
		return err
	}
	for in := first; ; {
		if err := s.Send(&pb.HelloReply{Message: in.Name}); err != nil {
			return err
		}
		if in, err = s.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (u *unsteady) Collect(s grpc.ClientStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	all := ""
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		all += in.Name
	}
	if err := u.fails(nil); err != nil {
		return err
	}
	return s.SendAndClose(&pb.HelloReply{Message: all})
}

// again makes a stream of each kind and returns what came.
func again(t *testing.T, c pb.GreeterClient, opts ...grpc.CallOption) map[string]func() (
	[]string, error) {
	return map[string]func() ([]string, error){
		"server": func() ([]string, error) {
			s, err := c.SayHelloAgain(within(t), &pb.HelloRequest{Name: "a", Times: 3}, opts...)
			is(t, "begin", err, codes.OK)
			return drain(s.Recv)
		},
		"both": func() ([]string, error) {
			s, err := c.Chat(within(t), opts...)
			is(t, "begin", err, codes.OK)
			for _, name := range []string{"a", "b", "c"} {
				if err := s.Send(&pb.HelloRequest{Name: name}); err != nil && err != io.EOF {
					t.Errorf("send: %v", err)
				}
			}
			is(t, "close", s.CloseSend(), codes.OK)
			return drain(s.Recv)
		},
		"client": func() ([]string, error) {
			s, err := c.Collect(within(t), opts...)
			is(t, "begin", err, codes.OK)
			for _, name := range []string{"a", "b", "c"} {
				if err := s.Send(&pb.HelloRequest{Name: name}); err != nil && err != io.EOF {
					t.Errorf("send: %v", err)
				}
			}
			out, err := s.CloseAndRecv()
			return []string{out.GetMessage()}, err
		},
	}
}

// drain receives all messages.
func drain(recv func() (*pb.HelloReply, error)) (got []string, err error) {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, m.Message)
	}
}

// TestStreamRetry: streams are tried again where the service config says so and the server has not
// answered, with all that was sent, and OnFinish is called once.
func TestStreamRetry(t *testing.T) {
	checkLeaks(t)
	u := new(unsteady)
	_, addr := serve(t, u)
	with := pb.NewGreeterClient(connect(t, addr, grpcerpc.WithDefaultServiceConfig(retries)))
	without := pb.NewGreeterClient(connect(t, addr, grpcerpc.WithDefaultServiceConfig(retries),
		grpcerpc.WithDisableRetry()))
	want := map[string][]string{
		"server": {"a", "a", "a"}, "both": {"a", "b", "c"}, "client": {"abc"},
	}
	var finished atomic.Int32
	onFinish := grpc.OnFinish(func(error) { finished.Add(1) })
	for _, c := range []struct {
		name    string
		client  pb.GreeterClient
		enough  int32 // streams
		late    bool
		opts    []grpc.CallOption
		code    codes.Code
		streams int32
	}{
		{"retried", with, 3, false, nil, codes.OK, 3},
		{"retried too often", with, 9, false, nil, codes.Unavailable, 4},
		{"retries disabled", without, 3, false, nil, codes.Unavailable, 1},
		{"beyond the buffer", with, 3, false, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(10)},
			codes.Unavailable, 1},
		{"answered", with, 3, true, nil, codes.Unavailable, 1},
	} {
		for kind, run := range again(t, c.client, append(c.opts, onFinish)...) {
			if c.late && kind == "client" {
				continue // its answer is the last thing
			}
			finished.Store(0)
			u.streams.Store(0)
			u.enough.Store(c.enough)
			u.late.Store(c.late)
			got, err := run()
			if status.Code(err) != c.code || u.streams.Load() != c.streams || finished.Load() != 1 {
				t.Errorf("%s, %s: %v after %d streams, finished %d times", c.name, kind, err,
					u.streams.Load(), finished.Load())
			}
			if c.code == codes.OK && !slices.Equal(got, want[kind]) {
				t.Errorf("%s, %s: got %v", c.name, kind, got)
			}
		}
	}
}

// TestStreamRetryHeader: Header waits for that of the stream that goes on.
func TestStreamRetryHeader(t *testing.T) {
	checkLeaks(t)
	u := new(unsteady)
	u.enough.Store(3)
	_, addr := serve(t, u, grpcerpc.StreamInterceptor(func(srv any, ss grpc.ServerStream,
		_ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if u.streams.Load() == 2 {
			_ = ss.SetHeader(metadata.Pairs("third", "x"))
		}
		return next(srv, ss)
	}))
	c := pb.NewGreeterClient(connect(t, addr, grpcerpc.WithDefaultServiceConfig(retries)))
	s, err := c.SayHelloAgain(within(t), &pb.HelloRequest{Times: 1})
	is(t, "begin", err, codes.OK)
	if md, err := s.Header(); err != nil || len(md.Get("third")) != 1 {
		t.Errorf("header %v, %v", md, err)
	}
	got, err := drain(s.Recv)
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestStreamRefused: streams that a server refuses because it stops begin at another one.
func TestStreamRefused(t *testing.T) {
	checkLeaks(t)
	stops, first := serve(t, new(unsteady))
	_, second := serve(t, new(unsteady))
	for kind := range again(t, nil) {
		cc := connect(t, "static:///"+first+","+second)
		c := pb.NewGreeterClient(cc)
		_, err := c.SayHello(within(t), &pb.HelloRequest{})
		is(t, "a connection", err, codes.Unimplemented)
		stops.RefuseCalls(true)
		if got, err := again(t, c)[kind](); err != nil {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
		stops.RefuseCalls(false)
	}
}

// TestStreamNeverSent: streams whose connection is lost before they were sent begin at another one.
func TestStreamNeverSent(t *testing.T) {
	checkLeaks(t)
	u := new(unsteady)
	_, addr := serve(t, u)
	cc := connect(t, addr)
	c := pb.NewGreeterClient(cc)
	_, err := c.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a connection", err, codes.Unimplemented)
	var both grpc.BidiStreamingClient[pb.HelloRequest, pb.HelloReply]
	var server grpc.ServerStreamingClient[pb.HelloReply]
	cc.LosePipes(func() {
		both, err = c.Chat(within(t), grpc.WaitForReady(true))
		is(t, "both ways", err, codes.OK)
		is(t, "send", both.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
		is(t, "close", both.CloseSend(), codes.OK)
		server, err = c.SayHelloAgain(within(t), &pb.HelloRequest{Times: 2}, grpc.WaitForReady(true))
		is(t, "server", err, codes.OK)
	})
	if got, err := drain(both.Recv); err != nil || !slices.Equal(got, []string{"x"}) {
		t.Errorf("both ways: %v, %v", got, err)
	}
	if got, err := drain(server.Recv); err != nil || len(got) != 2 {
		t.Errorf("server: %v, %v", got, err)
	}
	if n := u.streams.Load(); n != 2 {
		t.Errorf("%d streams ran", n)
	}
}

// TestStreamUnknown: streams that a server does not take because it has forgotten their connection
// begin at a new one.
func TestStreamUnknown(t *testing.T) {
	r := newRig(t, nil)
	r.hello(t, "a connection")
	r.server.Forget()
	s, err := r.client.Chat(within(t), grpc.WaitForReady(true))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	got, err := drain(s.Recv)
	if err != nil || !slices.Equal(got, []string{"Hello x"}) {
		t.Errorf("%v, %v", got, err)
	}
}
