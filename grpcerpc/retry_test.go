package grpcerpc_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// patient is a service config whose tries are hours apart.
const patient = `{"methodConfig": [{"name": [{"service": "helloworld.Greeter"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// pushing fails calls, and says by metadata when the next try is welcome.
type pushing struct {
	pb.UnimplementedGreeterServer
	mu       sync.Mutex
	enough   int         // calls after which one succeeds
	header   bool        // calls that fail have a header
	trailer  metadata.MD // of calls that fail
	attempts []string    // the metadata of each call
}

func (p *pushing) fails(ctx context.Context) (md metadata.MD, header bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in, _ := metadata.FromIncomingContext(ctx)
	p.attempts = append(p.attempts, strings.Join(in.Get("grpc-previous-rpc-attempts"), ","))
	if len(p.attempts) >= p.enough {
		return nil, false, nil
	}
	return p.trailer, p.header, status.Error(codes.Unavailable, "not yet")
}

func (p *pushing) SayHello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloReply, error) {
	md, header, err := p.fails(ctx)
	_ = grpc.SetTrailer(ctx, md)
	if header {
		_ = grpc.SetHeader(ctx, metadata.Pairs("some", "thing"))
	}
	return &pb.HelloReply{}, err
}

func (p *pushing) SayHelloAgain(
	_ *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	md, header, err := p.fails(s.Context())
	s.SetTrailer(md)
	if header {
		_ = s.SetHeader(metadata.Pairs("some", "thing"))
	}
	return err
}

// TestRetryMetadata: servers learn how many tries came before, and say when the next one comes. A
// call whose server sent a header is not tried again.
func TestRetryMetadata(t *testing.T) {
	checkLeaks(t)
	p := new(pushing)
	_, addr := serve(t, p)
	c := pb.NewGreeterClient(connect(t, addr, grpcerpc.WithDefaultServiceConfig(patient)))
	calls := map[string]func() error{
		"unary": func() error {
			_, err := c.SayHello(within(t), &pb.HelloRequest{})
			return err
		},
		"stream": func() error {
			s, err := c.SayHelloAgain(within(t), &pb.HelloRequest{})
			if err == nil {
				_, err = drain(s.Recv)
			}
			return err
		},
	}
	push := func(ms ...string) metadata.MD { return metadata.MD{"grpc-retry-pushback-ms": ms} }
	for _, v := range []struct {
		name     string
		trailer  metadata.MD
		enough   int
		header   bool
		code     codes.Code
		attempts []string
	}{
		{"pushed", push("0"), 3, false, codes.OK, []string{"", "1", "2"}},
		{"too often", push("1"), 9, false, codes.Unavailable, []string{"", "1", "2", "3"}},
		{"stopped", push("-1"), 3, false, codes.Unavailable, []string{""}},
		{"not a number", push("soon"), 3, false, codes.Unavailable, []string{""}},
		{"two numbers", push("0", "0"), 3, false, codes.Unavailable, []string{""}},
		{"with a header", push("0"), 3, true, codes.Unavailable, []string{""}},
	} {
		for kind, call := range calls {
			p.mu.Lock()
			p.enough, p.header, p.trailer, p.attempts = v.enough, v.header, v.trailer, nil
			p.mu.Unlock()
			err := call()
			p.mu.Lock()
			if status.Code(err) != v.code || !slices.Equal(p.attempts, v.attempts) {
				t.Errorf("%s, %s: %v, attempts %q", v.name, kind, err, p.attempts)
			}
			p.mu.Unlock()
		}
	}
}

// ended tells when an attempt of a call has ended.
type ended chan struct{}

func (e ended) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e ended) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		e <- struct{}{}
	}
}

func (e ended) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e ended) HandleConn(context.Context, stats.ConnStats) {}

// TestRetryClosed: a call that a server has told to wait for an hour ends with the ClientConn.
func TestRetryClosed(t *testing.T) {
	checkLeaks(t)
	p := &pushing{enough: 9, trailer: metadata.Pairs("grpc-retry-pushback-ms", "3600000")}
	_, addr := serve(t, p)
	attempts := make(ended, 9)
	cc := connect(t, addr, grpcerpc.WithDefaultServiceConfig(patient),
		grpcerpc.WithStatsHandler(attempts))
	failed := make(chan error, 1)
	go func() {
		_, err := pb.NewGreeterClient(cc).SayHello(context.Background(), &pb.HelloRequest{})
		failed <- err
	}()
	eventually(t, attempts, "the first attempt")
	is(t, "close", cc.Close(), codes.OK)
	is(t, "the call", eventually(t, failed, "the call's end"), codes.Canceled)
}

// TestUnaryRefused: a call that a server refuses because it stops goes to another one, and does
// not try the same connection again.
func TestUnaryRefused(t *testing.T) {
	checkLeaks(t)
	stops, first := serve(t, newGreeter())
	_, second := serve(t, newGreeter())
	cc := connect(t, "static:///"+first+","+second)
	c := pb.NewGreeterClient(cc)
	whoAnswers(t, c, 1, 1)
	stops.RefuseCalls(true)
	defer stops.RefuseCalls(false)
	var p peer.Peer
	_, err := c.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p))
	is(t, "a refused call", err, codes.OK)
	if p.Addr.String() != second {
		t.Errorf("%v answered", p.Addr)
	}
}
