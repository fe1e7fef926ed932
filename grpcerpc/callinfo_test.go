package grpcerpc_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// forInterceptor is an option as interceptors have them: it means nothing to grpc.
type forInterceptor struct {
	grpc.EmptyCallOption
	n *int
}

// bounded is an option that means what another one does.
type bounded struct{ *inBounded }

type inBounded struct{ grpc.MaxRecvMsgSizeCallOption }

// hidden and unreadable embed options by names that reflection must not read.
type (
	authority  = grpc.AuthorityOverrideCallOption
	unreadable struct{ authority }
	empty      = grpc.EmptyCallOption //lint:ignore U1000 it is embedded
	hidden     struct{ empty }        //lint:ignore U1000 its methods are used
)

// TestOwnCallOptions: options of types that embed one of grpc's mean that one, in calls and in
// streams, with an interceptor that looks for them and without.
func TestOwnCallOptions(t *testing.T) {
	seen := 0
	look := func(opts []grpc.CallOption) {
		for _, o := range opts {
			if o, ok := o.(*forInterceptor); ok {
				*o.n++
			}
		}
	}
	for name, dial := range map[string][]grpcerpc.DialOption{"plain": nil, "intercepted": {
		grpcerpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			look(opts)
			return next(ctx, method, req, reply, cc, opts...)
		}),
		grpcerpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
			cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			look(opts)
			return next(ctx, desc, cc, method, opts...)
		})}} {
		t.Run(name, func(t *testing.T) { ownOptions(t, newRig(t, dial).client, &seen) })
	}
	if seen != 2 {
		t.Errorf("the interceptors found %d options", seen)
	}
}

func ownOptions(t *testing.T, client pb.GreeterClient, seen *int) {
	for _, own := range []grpc.CallOption{
		&forInterceptor{n: seen}, forInterceptor{n: seen}, (*grpc.EmptyCallOption)(nil),
		hidden{}, struct{ grpc.CallOption }{},
	} {
		_, err := client.SayHello(within(t), &pb.HelloRequest{}, own)
		is(t, "a call", err, codes.OK)
		s, err := client.SayHelloAgain(within(t), &pb.HelloRequest{}, own)
		is(t, "begin", err, codes.OK)
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("a stream: %v", err)
		}
	}
	is(t, "a bound", errOf(client.SayHello(within(t), &pb.HelloRequest{Times: 100},
		bounded{&inBounded{grpc.MaxRecvMsgSizeCallOption{MaxRecvMsgSize: 50}}})),
		codes.ResourceExhausted)
	no := grpc.CallCustomCodec(nil) //lint:ignore SA1019 it is refused
	for _, o := range []grpc.CallOption{
		no, struct{ grpc.CallOption }{no}, unreadable{}, experimental.AcceptCompressors("gzip"),
	} {
		is(t, "an option that has no counterpart", errOf(client.SayHello(within(t),
			&pb.HelloRequest{}, o)), codes.Internal)
	}
}

func errOf[T any](_ T, err error) error { return err }

// headers notes the metadata that a stats handler of a client is told.
type headers struct{ seen chan metadata.MD }

func (headers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (h headers) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InHeader); ok {
		h.seen <- in.Header
	}
}
func (headers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (headers) HandleConn(context.Context, stats.ConnStats)                       {}

// TestResponseHeader: the headers of answers have the content type, as grpc-go's over TCP: those
// that options ask for, those of streams, and those that stats handlers are told.
func TestResponseHeader(t *testing.T) {
	watch := headers{make(chan metadata.MD, 100)}
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithStatsHandler(watch)})
	tcp, err := grpc.NewClient("passthrough:///"+serveTCP(t, r.server), grpc.WithStatsHandler(watch),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	is(t, "dial", err, codes.OK)
	defer func() { _ = tcp.Close() }()
	ask := func(cc grpc.ClientConnInterface, name string, opts []grpc.CallOption) (got []string) {
		note := func(md metadata.MD) {
			got = append(got, fmt.Sprint(len(md), md.Get("content-type")))
		}
		ctx := metadata.AppendToOutgoingContext(within(t), "one", "1", "two-bin", "2")
		in, client, md := &pb.HelloRequest{Name: name}, pb.NewGreeterClient(cc), metadata.MD{}
		opts = append(opts, grpc.Header(&md))
		_, _ = client.SayHello(ctx, in, opts...)
		note(md)
		md = nil
		s, err := client.Chat(ctx, opts...)
		is(t, "begin", err, codes.OK)
		is(t, "send", s.Send(in), codes.OK)
		ofStream, err := s.Header()
		is(t, "header", err, codes.OK)
		note(ofStream)
		is(t, "close", s.CloseSend(), codes.OK)
		for err == nil {
			_, err = s.Recv()
		}
		note(md)
		for len(watch.seen) > 0 {
			note(<-watch.seen)
		}
		return got
	}
	for _, name := range []string{"x", "fail", "metadata"} {
		for what, opts := range map[string][]grpc.CallOption{
			"no codec": nil, "a codec": {grpc.CallContentSubtype("upper")},
			"another": {grpc.ForceCodec(upper{})},
		} {
			if got, want := ask(r.cc, name, opts), ask(tcp, name, opts); !slices.Equal(got, want) {
				t.Errorf("%s, %s: got %q, want %q", name, what, got, want)
			}
		}
	}
}

// TestFinish: OnFinish is called when a stream has ended in any of the ways that grpc-go names, as
// there: by an error of SendMsg, a failure that Header finds, or the Close of the ClientConn.
func TestFinish(t *testing.T) {
	for name, end := range map[string]func(pb.Greeter_ChatClient, io.Closer) error{
		"a large message": func(s pb.Greeter_ChatClient, _ io.Closer) error {
			return s.Send(&pb.HelloRequest{Payload: make([]byte, 1000)})
		},
		"a late message": func(s pb.Greeter_ChatClient, _ io.Closer) error {
			is(t, "CloseSend", s.CloseSend(), codes.OK)
			return s.Send(&pb.HelloRequest{})
		},
		"no header": func(s pb.Greeter_ChatClient, _ io.Closer) error {
			is(t, "send", s.Send(&pb.HelloRequest{Name: "fail"}), codes.OK)
			return errOf(s.Header())
		},
		"close": func(s pb.Greeter_ChatClient, cc io.Closer) error {
			is(t, "send", s.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
			return cc.Close()
		},
	} {
		t.Run(name, func(t *testing.T) { sameFinish(t, end) })
	}
}

// sameFinish ends a stream over TCP and one over erpc, and compares what the application is told.
func sameFinish(t *testing.T, end func(pb.Greeter_ChatClient, io.Closer) error) {
	r := newRig(t, nil)
	tcp, err := grpc.NewClient("passthrough:///"+serveTCP(t, r.server),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	is(t, "dial", err, codes.OK)
	var told [][2]codes.Code
	for _, cc := range []interface {
		grpc.ClientConnInterface
		io.Closer
	}{tcp, r.cc} {
		finished := make(chan error, 9)
		s, err := pb.NewGreeterClient(cc).Chat(within(t), grpc.MaxCallSendMsgSize(100),
			grpc.OnFinish(func(err error) { finished <- err }))
		is(t, "begin", err, codes.OK)
		returned := end(s, cc)
		told = append(told, [2]codes.Code{
			status.Code(returned), status.Code(eventually(t, finished, "OnFinish"))})
		_ = cc.Close()
	}
	if told[1] != told[0] {
		t.Errorf("it returns and finishes with %v, want %v", told[1], told[0])
	}
}

// TestLargestBound: a bound as large as an int bounds nothing.
func TestLargestBound(t *testing.T) {
	out, err := newRig(t, nil).client.SayHello(within(t), &pb.HelloRequest{Name: "x"},
		grpc.UseCompressor("gzip"), grpc.MaxCallRecvMsgSize(math.MaxInt))
	if err != nil || out.Message != "Hello x" {
		t.Errorf("got %q, %v", out.GetMessage(), err)
	}
}
