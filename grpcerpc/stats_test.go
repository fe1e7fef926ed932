package grpcerpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

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

func (r *recorder) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (r *recorder) HandleConn(context.Context, stats.ConnStats) {}

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
