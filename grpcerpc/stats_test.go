package grpcerpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// recorder notes the kinds of what a stats handler is told.
type recorder struct {
	mu   sync.Mutex
	seen []string
	end  chan string

	conns chan string // what it is told of connections; nil: nothing
}

func (r *recorder) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (r *recorder) HandleRPC(_ context.Context, s stats.RPCStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats."))
	if _, ok := s.(*stats.End); ok {
		r.end <- strings.Join(r.seen, " ")
		r.seen = nil
	}
}

func (r *recorder) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, r, info)
}

func (r *recorder) HandleConn(ctx context.Context, s stats.ConnStats) {
	info, _ := ctx.Value(r).(*stats.ConnTagInfo)
	if r.conns != nil {
		r.conns <- fmt.Sprintf("%T %v %s %s", s, s.IsClient(), info.LocalAddr, info.RemoteAddr)
	}
}

// TestStats: stats handlers are told what grpc-go tells them, in its order.
func TestStats(t *testing.T) {
	client, server := &recorder{end: make(chan string, 9)}, &recorder{end: make(chan string, 9)}
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithStatsHandler(client)},
		grpcerpc.StatsHandler(server))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	check := func(what, want string, end chan string) {
		t.Helper()
		if got := eventually(t, end, what); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	check("client", "Begin DelayedPickComplete OutHeader OutPayload InHeader InPayload InTrailer End",
		client.end)
	check("server", "InHeader Begin InPayload OutHeader OutPayload OutTrailer End", server.end)
	s, err := r.client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err = s.Recv(); err != io.EOF {
		t.Error(err)
	}
	check("client", "Begin OutHeader OutPayload InHeader InPayload InTrailer End", client.end)
	check("server", "InHeader Begin InPayload OutHeader OutPayload OutTrailer End", server.end)
}

// TestConnStats: stats handlers tag connections, are told of their begin and end, at either side
// once, and find the tag in the contexts of the server's calls, unary and streams.
func TestConnStats(t *testing.T) {
	client, server := &recorder{conns: make(chan string, 9)}, &recorder{conns: make(chan string, 9)}
	client.end, server.end = make(chan string, 9), make(chan string, 9)
	tags := make(chan any, 2)
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithStatsHandler(client)},
		grpcerpc.StatsHandler(server),
		grpcerpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
			handler grpc.UnaryHandler) (any, error) {
			tags <- ctx.Value(server)
			return handler(ctx, req)
		}),
		grpcerpc.StreamInterceptor(func(impl any, ss grpc.ServerStream, _ *grpc.StreamServerInfo,
			handler grpc.StreamHandler) error {
			tags <- ss.Context().Value(server)
			return handler(impl, ss)
		}))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	s, err := r.client.Chat(within(t))
	is(t, "a stream", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err = s.Recv(); err != io.EOF {
		t.Error(err)
	}
	for _, what := range []string{"the call", "the stream"} {
		if tag, ok := eventually(t, tags, what).(*stats.ConnTagInfo); !ok || tag.RemoteAddr == nil {
			t.Errorf("the context of %s has the tag %v", what, tag)
		}
	}
	is(t, "close", r.cc.Close(), codes.OK)
	for _, tt := range []struct {
		what, is string
		told     chan string
	}{{"client", "true", client.conns}, {"server", "false", server.conns}} {
		for i, kind := range []string{"Begin", "End"} {
			got := eventually(t, tt.told, tt.what+" "+kind)
			if !strings.HasPrefix(got, "*stats.Conn"+kind+" "+tt.is+" ") || strings.Contains(got, "nil") {
				t.Errorf("%s's message %d: %s", tt.what, i, got)
			}
		}
	}
	r.server.Stop()
	if len(client.conns)+len(server.conns) > 0 {
		t.Error("there is more than one begin and one end")
	}
}
