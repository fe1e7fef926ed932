package grpcerpc_test

//lint:file-ignore SA1019 the older compressors of grpc are tested

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestTap: the tap handle sees calls of both kinds first, and ends them with its error.
func TestTap(t *testing.T) {
	r := newRig(t, nil, grpcerpc.InTapHandle(func(
		ctx context.Context, info *tap.Info) (context.Context, error) {
		switch info.Header.Get("tap")[0] {
		case "status":
			return nil, status.Error(codes.ResourceExhausted, "enough")
		case "error":
			return nil, io.ErrNoProgress
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, nil
	}))
	for _, v := range []struct {
		says string
		want codes.Code
	}{{"status", codes.ResourceExhausted}, {"error", codes.PermissionDenied},
		{"context", codes.Canceled}} {
		ctx := metadata.AppendToOutgoingContext(within(t), "tap", v.says)
		_, err := r.client.SayHello(ctx, &pb.HelloRequest{Name: "wait"})
		is(t, v.says, err, v.want)
		s, err := r.client.Collect(ctx)
		is(t, "begin", err, codes.OK)
		_ = s.Send(&pb.HelloRequest{Name: "wait"}) // it may have ended
		_, err = s.CloseAndRecv()
		is(t, v.says+", of a stream", err, v.want)
	}
}

// TestStopLeavesHandlers: Stop waits for handlers with WaitForHandlers alone. The contexts of those
// that it leaves end, and their clients learn it at once.
func TestStopLeavesHandlers(t *testing.T) {
	began, release := make(chan context.Context, 2), make(chan struct{})
	opts := []grpcerpc.ServerOption{
		grpcerpc.StreamInterceptor(func(
			_ any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
			began <- ss.Context()
			<-release
			return nil
		}),
		grpcerpc.UnaryInterceptor(func(
			ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			began <- ctx
			<-release
			return &pb.HelloReply{}, nil
		})}
	r := newRig(t, nil, opts...)
	waits := newRig(t, nil, append(opts, grpcerpc.WaitForHandlers(true))...)
	unary := make(chan error, 2)
	var contexts []context.Context
	for _, one := range []*rig{r, waits} {
		_, err := one.client.Chat(within(t))
		is(t, "begin", err, codes.OK)
		go func() {
			_, err := one.client.SayHello(within(t), &pb.HelloRequest{})
			unary <- err
		}()
		for range 2 {
			contexts = append(contexts, eventually(t, began, "the handler"))
		}
	}
	r.server.Stop() // hangs if it waits
	for _, ctx := range contexts[:2] {
		eventually(t, ctx.Done(), "the end of a handler's context")
		if ctx.Err() != context.Canceled {
			t.Errorf("a handler's context: %v", ctx.Err())
		}
	}
	is(t, "the call", eventually(t, unary, "the call"), codes.Unavailable)
	stopped := make(chan struct{})
	go func() {
		waits.server.Stop()
		close(stopped)
	}()
	is(t, "the other call", eventually(t, unary, "the other call"), codes.Unavailable)
	select {
	case <-stopped:
		t.Error("Stop did not wait")
	default:
	}
	close(release)
	eventually(t, stopped, "the end of Stop")
}

// older is a compressor and a decompressor of grpc's older kind with a name of its own.
type older struct {
	grpc.Compressor
	grpc.Decompressor
}

func newOlder() older { return older{grpc.NewGZIPCompressor(), grpc.NewGZIPDecompressor()} }

func (older) Type() string                     { return "older" }
func (o older) Do(w io.Writer, p []byte) error { return o.Compressor.Do(w, p) }

// olderBack is its decompressor.
type olderBack struct{ older }

func (o olderBack) Do(r io.Reader) ([]byte, error) { return o.Decompressor.Do(r) }

// TestOlderCompressors: compressors of the older kind work where both sides have them, and fail by
// name where one does not.
func TestOlderCompressors(t *testing.T) {
	client := []grpcerpc.DialOption{grpcerpc.WithCompressor(newOlder()),
		grpcerpc.WithDecompressor(olderBack{newOlder()})}
	server := []grpcerpc.ServerOption{grpcerpc.RPCCompressor(newOlder()),
		grpcerpc.RPCDecompressor(olderBack{newOlder()})}
	for _, v := range []struct {
		name string
		dial []grpcerpc.DialOption
		opts []grpcerpc.ServerOption
		want codes.Code
	}{{"both", client, server, codes.OK}, {"client", client, nil, codes.Unimplemented},
		{"server", nil, server, codes.Internal}, {"answers", client[1:], server, codes.OK}} {
		r := newRig(t, v.dial, v.opts...)
		out, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "x", Times: 1000})
		is(t, v.name, err, v.want)
		if err == nil && (out.Message != "Hello x" || len(out.Payload) != 1000) {
			t.Errorf("%s: %v", v.name, out)
		}
		s, err := r.client.SayHelloAgain(within(t), &pb.HelloRequest{Name: "x", Times: 2})
		is(t, "begin", err, codes.OK)
		_, err = s.Recv()
		is(t, v.name+", a stream", err, v.want)
	}
}

// TestLocalCredentials: sessions of this machine may have credentials of package local, and peers
// know it.
func TestLocalCredentials(t *testing.T) {
	infos := make(chan credentials.AuthInfo, 1)
	r := newRig(t, []grpcerpc.DialOption{
		grpcerpc.WithTransportCredentials(local.NewCredentials())},
		grpcerpc.Creds(local.NewCredentials()), grpcerpc.UnaryInterceptor(func(ctx context.Context,
			req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			p, _ := peer.FromContext(ctx)
			infos <- p.AuthInfo
			return h(ctx, req)
		}))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	if info := <-infos; info == nil || info.AuthType() != "local" {
		t.Errorf("the client is %v", info)
	}
	cc := connect(t, "192.0.2.1:1", grpcerpc.WithTransportCredentials(local.NewCredentials()))
	_, err = pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "another machine", err, codes.Unavailable)
	if !strings.Contains(err.Error(), "local credentials rejected connection") {
		t.Error(err)
	}
}

// TestAuthorities: what servers see is the authority of the call, else of the address, else of the
// target; that of credentials counts like WithAuthority's and may not contradict it.
func TestAuthorities(t *testing.T) {
	seen := make(chan string, 1)
	r := newRig(t, nil, grpcerpc.UnaryInterceptor(func(ctx context.Context,
		req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen <- md.Get(":authority")[0]
		return h(ctx, req)
	}))
	m := manual.NewBuilderWithScheme("names")
	m.InitialState(resolver.State{Addresses: []resolver.Address{
		{Addr: r.addr, ServerName: "address.example"}}})
	cc := connect(t, "names:///x", grpcerpc.WithResolvers(m))
	named := connect(t, "names:///x", grpcerpc.WithResolvers(m), grpcerpc.WithAuthority("own"))
	for _, v := range []struct {
		cc   *grpcerpc.ClientConn
		want string
		opts []grpc.CallOption
	}{{cc, "address.example", nil}, {named, "own", nil},
		{cc, "call.example", []grpc.CallOption{grpc.CallAuthority("call.example")}}} {
		_, err := pb.NewGreeterClient(v.cc).SayHello(within(t), &pb.HelloRequest{}, v.opts...)
		is(t, "a call", err, codes.OK)
		if got := <-seen; got != v.want {
			t.Errorf("the authority is %q, want %q", got, v.want)
		}
	}
	creds := local.NewCredentials()
	is(t, "a name", creds.OverrideServerName("creds"), codes.OK) //nolint:staticcheck // see above
	if cc, err := grpcerpc.NewClient("x:1", grpcerpc.WithTransportCredentials(creds),
		grpcerpc.WithAuthority("other")); err == nil {
		t.Error("two authorities are no error")
		_ = cc.Close()
	}
}

// TestSendTwice: a second message of one request ends the call, as in grpc-go.
func TestSendTwice(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true},
		"/helloworld.Greeter/SayHelloAgain")
	is(t, "begin", err, codes.OK)
	is(t, "the first", s.SendMsg(&pb.HelloRequest{Name: "wait"}), codes.OK)
	ctx := eventually(t, r.began, "the handler")
	is(t, "the second", s.SendMsg(&pb.HelloRequest{}), codes.Internal)
	eventually(t, ctx.Done(), "the end of its context")
}
