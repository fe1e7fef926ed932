package grpcerpc_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

func TestUnary(t *testing.T) {
	r := newRig(t, nil)
	out, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "World", Times: 3000})
	is(t, "a call", err, codes.OK)
	if out.Message != "Hello World" || len(out.Payload) != 3000 {
		t.Errorf("got %q and %d bytes", out.Message, len(out.Payload))
	}
}

func TestUnaryFromManyGoroutines(t *testing.T) {
	r := newRig(t, nil)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			for range 20 {
				if _, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestStatus: code, text and details of a status reach the client.
func TestStatus(t *testing.T) {
	r := newRig(t, nil)
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "fail", Times: 7})
	st := status.Convert(err)
	if st.Code() != codes.NotFound || st.Message() != "no such name ✗" || len(st.Details()) != 1 {
		t.Fatalf("got %v", st)
	}
	if d, ok := st.Details()[0].(*pb.HelloRequest); !ok || d.Times != 7 {
		t.Errorf("details are %v", st.Details()[0])
	}
	_, err = r.client.SayHello(within(t), &pb.HelloRequest{Name: "plain error"})
	if st := status.Convert(err); st.Code() != codes.Unknown || st.Message() != "plain" {
		t.Errorf("got %v", st)
	}
	_, err = r.client.SayHello(within(t), &pb.HelloRequest{Name: "panic"})
	is(t, "a panic", err, codes.Internal)
	for _, name := range []string{"/helloworld.Greeter/No", "/no.Service/No", "//", "/\x00/\xff"} {
		err := r.cc.Invoke(within(t), name, &pb.HelloRequest{}, &pb.HelloReply{})
		if c := status.Code(err); c != codes.Unimplemented && c != codes.Internal {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestMetadata: metadata travels both ways, raw under -bin keys.
func TestMetadata(t *testing.T) {
	r := newRig(t, []grpcerpc.DialOption{
		grpcerpc.WithUserAgent("mine"), grpcerpc.WithAuthority("me.test"),
	})
	ctx := metadata.AppendToOutgoingContext(within(t),
		"One", "a", "two-bin", "\x00\xff", "te", "dropped")
	var header, trailer metadata.MD
	var p peer.Peer
	_, err := r.client.SayHello(ctx, &pb.HelloRequest{Name: "metadata"},
		grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&p))
	is(t, "a call", err, codes.OK)
	for _, v := range []struct{ got, want string }{
		{strings.Join(header.Get("one"), ","), "a,b"},
		{strings.Join(trailer.Get("two-bin"), ","), "\x00\xff"},
		{header.Get("got-authority")[0], "me.test"},
		{header.Get("got-content-type")[0], "application/grpc"},
		{header.Get("got-user-agent")[0][:5], "mine "},
		{p.Addr.String(), r.addr},
	} {
		if v.got != v.want {
			t.Errorf("got %q, want %q", v.got, v.want)
		}
	}
	for _, md := range []metadata.MD{{"a b": {"x"}}, {"nul": {"a\x00b"}}} {
		_, err := r.client.SayHello(metadata.NewOutgoingContext(within(t), md), &pb.HelloRequest{})
		is(t, "bad metadata", err, codes.Internal)
	}
}

// TestDeadline: the deadline reaches the handler, and ends both sides.
func TestDeadline(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(ctx, &pb.HelloRequest{Name: "wait"})
		ended <- err
	}()
	at := eventually(t, r.began, "the handler")
	if _, ok := at.Deadline(); !ok {
		t.Error("the handler has no deadline")
	}
	cancel()
	is(t, "a cancelled call", eventually(t, ended, "the call"), codes.Canceled)
	eventually(t, at.Done(), "the end of the handler's context")
	ctx, cancel = context.WithTimeout(context.Background(), 1)
	defer cancel()
	_, err := r.client.SayHello(ctx, &pb.HelloRequest{Name: "wait"})
	is(t, "a call without time", err, codes.DeadlineExceeded)
}

// TestSizes: messages beyond the limits are refused on each side.
func TestSizes(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxRecvMsgSize(2000), grpcerpc.MaxSendMsgSize(5000))
	call := func(send, receive int, opts ...grpc.CallOption) error {
		_, err := r.client.SayHello(within(t),
			&pb.HelloRequest{Payload: make([]byte, send), Times: int32(receive)}, opts...)
		return err
	}
	is(t, "small messages", call(1900, 4900), codes.OK)
	is(t, "a large request", call(2001, 0), codes.ResourceExhausted)
	is(t, "a large response", call(0, 5001), codes.ResourceExhausted)
	is(t, "a request beyond the client's",
		call(100, 0, grpc.MaxCallSendMsgSize(50)), codes.ResourceExhausted)
	is(t, "a response beyond the client's",
		call(0, 100, grpc.MaxCallRecvMsgSize(50)), codes.ResourceExhausted)
}

// TestLargeMessages: 4 MiB by default, 64 MiB when allowed.
func TestLargeMessages(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxRecvMsgSize(64<<20))
	in := &pb.HelloRequest{Payload: make([]byte, 4<<20), Times: 4<<20 - 100}
	_, err := r.client.SayHello(within(t), in)
	is(t, "a large call", err, codes.OK)
	in.Times = 4 << 20
	_, err = r.client.SayHello(within(t), in)
	is(t, "a larger answer", err, codes.ResourceExhausted)
	if testing.Short() {
		return
	}
	in.Payload, in.Times = make([]byte, 63<<20), 63<<20
	_, err = r.client.SayHello(within(t), in, grpc.MaxCallRecvMsgSize(64<<20))
	is(t, "64 MiB", err, codes.OK)
}

// TestInterceptors: interceptors of both sides run in order, and see the target.
func TestInterceptors(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
	client := func(name string) grpc.UnaryClientInterceptor {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			note(name + cc.Target()[:4])
			return next(ctx, method, req, reply, cc, opts...)
		}
	}
	server := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			note(name + info.FullMethod[:4])
			return next(ctx, req)
		}
	}
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithChainUnaryInterceptor(client("b"), client("c")),
		grpcerpc.WithUnaryInterceptor(client("a"))},
		grpcerpc.ChainUnaryInterceptor(server("e")), grpcerpc.UnaryInterceptor(server("d")))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	mu.Lock()
	if got := strings.Join(order, " "); got != "apass bpass cpass d/hel e/hel" {
		t.Errorf("order: %s", got)
	}
	order = nil
	mu.Unlock()
	_, err = pb.NewGreeterClient(r.cc.GRPC()).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call of the grpc.ClientConn", err, codes.OK)
	mu.Lock()
	defer mu.Unlock()
	if len(order) != 5 {
		t.Errorf("order: %s", order)
	}
}

// TestCodecs: other codecs and compressors by name; unknown ones are errors.
func TestCodecs(t *testing.T) {
	r := newRig(t, nil)
	in := &pb.HelloRequest{Name: strings.Repeat("x", 10000)}
	_, err := r.client.SayHello(within(t), in, grpc.UseCompressor("gzip"))
	is(t, "gzip", err, codes.OK)
	_, err = r.client.SayHello(within(t), in,
		grpc.UseCompressor("gzip"), grpc.MaxCallRecvMsgSize(9000))
	is(t, "gzip beyond the limit", err, codes.ResourceExhausted)
	_, err = r.client.SayHello(within(t), in, grpc.UseCompressor("none"))
	is(t, "an unknown compressor", err, codes.Internal)
	_, err = r.client.SayHello(within(t), in, grpc.CallContentSubtype("none"))
	is(t, "an unknown codec", err, codes.Internal)
	_, err = r.client.SayHello(within(t), in, grpc.CallContentSubtype("upper"))
	is(t, "a codec by name", err, codes.OK)
}

// TestNoServer: calls fail with Unavailable; those that wait end with their context.
func TestNoServer(t *testing.T) {
	checkLeaks(t)
	tr, err := overUDP()
	if err != nil {
		t.Fatal(err)
	}
	cc := connect(t, tr.LocalAddr().String(), grpcerpc.WithConfig(hurried))
	defer tr.Close()
	client := pb.NewGreeterClient(cc)
	_, err = client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call to nobody", err, codes.Unavailable)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := client.SayHello(ctx, &pb.HelloRequest{}, grpc.WaitForReady(true))
		ended <- err
	}()
	cancel()
	is(t, "a call that waits", eventually(t, ended, "the call"), codes.Canceled)
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	_, err = client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call after Close", err, codes.Canceled)
}
