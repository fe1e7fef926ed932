package grpcerpc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// failing fails all calls while it is told to, and counts them.
type failing struct {
	pb.UnimplementedGreeterServer
	fails atomic.Bool
	calls atomic.Int32
}

func (f *failing) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	f.calls.Add(1)
	if f.fails.Load() {
		return nil, status.Error(codes.Unavailable, "on purpose")
	}
	return &pb.HelloReply{}, nil
}

// both runs a test over grpcerpc and over grpc-go, which says what is right, with a resolver and a
// default service config ("" is none). It returns a result of each.
func both(
	t *testing.T, f pb.GreeterServer, config string,
	run func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string),
) {
	t.Run("grpc-go", func(t *testing.T) {
		checkLeaks(t)
		s, _ := serve(t, f)
		r := manual.NewBuilderWithScheme("mine")
		opts := []grpc.DialOption{grpc.WithResolvers(r),
			grpc.WithTransportCredentials(insecure.NewCredentials())}
		if config != "" {
			opts = append(opts, grpc.WithDefaultServiceConfig(config))
		}
		cc, err := grpc.NewClient("mine:///x", opts...)
		is(t, "dial", err, codes.OK)
		defer func() { _ = cc.Close() }()
		run(t, pb.NewGreeterClient(cc), r, serveTCP(t, s))
	})
	t.Run("grpcerpc", func(t *testing.T) {
		checkLeaks(t)
		_, addr := serve(t, f)
		r := manual.NewBuilderWithScheme("mine")
		opts := []grpcerpc.DialOption{grpcerpc.WithResolvers(r)}
		if config != "" {
			opts = append(opts, grpcerpc.WithDefaultServiceConfig(config))
		}
		cc := connect(t, "mine:///x", opts...)
		defer func() { _ = cc.Close() }()
		run(t, pb.NewGreeterClient(cc), r, addr)
	})
}

// at returns the state of a resolver with one address and a service config.
func at(addr string, config *serviceconfig.ParseResult) resolver.State {
	return resolver.State{Addresses: []resolver.Address{{Addr: addr}}, ServiceConfig: config}
}

// TestRetryThrottling: while many calls fail there are no further tries, until enough succeed.
func TestRetryThrottling(t *testing.T) {
	config := `{"retryThrottling": {"maxTokens": 4, "tokenRatio": 0.5}, "methodConfig": [{"name": [{}],
		"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	f := new(failing)
	both(t, f, config, func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		r.InitialState(at(addr, nil))
		var got []int32
		call := func(fails bool) {
			f.calls.Store(0)
			f.fails.Store(fails)
			_, _ = c.SayHello(within(t), &pb.HelloRequest{}, grpc.WaitForReady(true))
			got = append(got, f.calls.Load())
		}
		call(true) // 4 tokens: three and a further try, two and none
		call(true) // one
		call(true) // none
		for range 7 {
			call(false)
		}
		call(true) // 3.5: 2.5 and a further try, 1.5 and none
		r.UpdateState(at(addr, nil))
		call(true) // 4 again
		want := []int32{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("calls took %v tries, want %v", got, want)
			}
		}
	})
}

// TestBadServiceConfig: a resolver's service config that cannot be read fails calls by its text if
// there was none before, and else changes nothing.
func TestBadServiceConfig(t *testing.T) {
	both(t, new(failing), "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		r.InitialState(at(addr, &serviceconfig.ParseResult{
			Err: status.Error(codes.Internal, "no service config")}))
		_, err := c.SayHello(within(t), &pb.HelloRequest{})
		is(t, "a call", err, codes.Unavailable)
		want := "error parsing service config: rpc error: code = Internal desc = no service config"
		if got := status.Convert(err).Message(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		r.UpdateState(at(addr, r.CC().ParseServiceConfig(
			`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 100}]}`)))
		large := &pb.HelloRequest{Payload: make([]byte, 200)}
		_, err = c.SayHello(within(t), &pb.HelloRequest{}, grpc.WaitForReady(true))
		is(t, "a call after a good one", err, codes.OK)
		for _, later := range []*serviceconfig.ParseResult{nil, r.CC().ParseServiceConfig(`{`)} {
			r.UpdateState(at(addr, later))
			_, err = c.SayHello(within(t), large)
			is(t, "a large call after another", err, codes.ResourceExhausted)
			_, err = c.SayHello(within(t), &pb.HelloRequest{})
			is(t, "a small one", err, codes.OK)
		}
	})
}

// TestFirstServiceConfig: what a resolver says of methods holds for the first call, which waits for
// the resolver.
func TestFirstServiceConfig(t *testing.T) {
	both(t, new(failing), "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		built := make(chan resolver.ClientConn, 1)
		r.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
			built <- cc
		}
		result := make(chan error, 1)
		go func() {
			_, err := c.SayHello(within(t), &pb.HelloRequest{Payload: make([]byte, 200)})
			result <- err
		}()
		cc := eventually(t, built, "a resolver")
		err := cc.UpdateState(at(addr, cc.ParseServiceConfig(
			`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 100}]}`)))
		is(t, "the update", err, codes.OK)
		is(t, "the call", eventually(t, result, "the call"), codes.ResourceExhausted)
	})
}

// TestMaxCallAttempts: a ClientConn bounds the tries that a service config asks for.
func TestMaxCallAttempts(t *testing.T) {
	f := new(failing)
	f.fails.Store(true)
	_, addr := serve(t, f)
	for n, want := range map[int]int32{-1: 5, 1: 5, 2: 2, 7: 7} {
		cc := connect(t, addr, grpcerpc.WithMaxCallAttempts(n), grpcerpc.WithDefaultServiceConfig(
			`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 9,
			"initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
			"retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
		f.calls.Store(0)
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
		is(t, "a call", err, codes.Unavailable)
		if got := f.calls.Load(); got != want {
			t.Errorf("at most %d: %d tries, want %d", n, got, want)
		}
	}
}

// TestFinishWhileWaiting: a call that ends while it waits for the resolver tells its options.
func TestFinishWhileWaiting(t *testing.T) {
	both(t, new(failing), "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, _ string) {
		built := make(chan bool, 1)
		r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) {
			built <- true
		}
		for _, what := range []string{"unary", "stream"} {
			ctx, cancel := context.WithCancel(within(t))
			finished, ended := make(chan error, 1), make(chan error, 1)
			told := grpc.OnFinish(func(err error) { finished <- err })
			go func() {
				var err error
				if what == "unary" {
					_, err = c.SayHello(ctx, &pb.HelloRequest{}, told)
				} else {
					_, err = c.Chat(ctx, told)
				}
				ended <- err
			}()
			if what == "unary" {
				eventually(t, built, "a resolver")
			}
			cancel()
			is(t, what, eventually(t, ended, what), codes.Canceled)
			is(t, what+": OnFinish", eventually(t, finished, what), codes.Canceled)
		}
	})
}

// TestServiceConfigTexts: grpcerpc and grpc-go read the same texts, and refuse the same. (grpc-go
// does not know the field "hedgingPolicy".)
func TestServiceConfigTexts(t *testing.T) {
	retry := `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 2, "maxBackoff": "1s",
		"initialBackoff": "%s", "backoffMultiplier": 1, "retryableStatusCodes": ["ABORTED", 14]}}]}`
	for _, text := range []string{
		``, `{}`, `[]`, `{"methodConfig": null}`, `{"unknown": 1}`,
		`{"methodConfig": [{"name": [{}], "timeout": "-1s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "9999999999s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "1e3s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "1.000000001s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "0.0000000001s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": ".01s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "1.s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": ".s"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "1m"}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": 1}]}`,
		`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": -1}]}`,
		`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": "1"}]}`,
		`{"methodConfig": [{"name": [{}], "maxRequestMessageBytes": 99999999999999}]}`,
		`{"methodConfig": [{"name": [{"method": "x"}]}]}`, `{"methodConfig": [{"name": []}]}`,
		`{"methodConfig": [{"retryPolicy": {}}]}`, `{"methodConfig": [{"name": [{}, {}]}]}`,
		`{"methodConfig": [{"name": [{}], "retryPolicy": {}}]}`,
		`{"methodConfig": [{"name": [{}], "hedgingPolicy": {}}]}`,
		fmt.Sprintf(retry, "1s"), fmt.Sprintf(retry, "0s"), fmt.Sprintf(retry, "x"),
		`{"retryThrottling": {}}`, `{"methodConfig": [], "retryThrottling": {}}`,
		`{"retryThrottling": {"maxTokens": 1001, "tokenRatio": 0}}`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 1000, "tokenRatio": 0.1}}`,
		`{"loadBalancingConfig": []}`, `{"loadBalancingConfig": [{"none": {}}]}`,
		`{"loadBalancingConfig": [{"none": {}}, {"round_robin": {}}]}`,
		`{"loadBalancingPolicy": "none"}`, `{"loadBalancingPolicy": "round_robin"}`,
		`{"healthCheckConfig": {}}`, `{"healthCheckConfig": {"serviceName": 1}}`,
	} {
		cc, err := grpcerpc.NewClient("x:1", grpcerpc.WithDefaultServiceConfig(text))
		theirs, want := grpc.NewClient("x:1", grpc.WithDefaultServiceConfig(text),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v; grpc-go: %v", text, err, want)
		}
		if err == nil {
			_ = cc.Close()
		}
		if want == nil {
			_ = theirs.Close()
		}
	}
}

// TestGetMethodConfig: a ClientConn says what its service config has for a method.
func TestGetMethodConfig(t *testing.T) {
	cc := connect(t, "x:1", grpcerpc.WithDefaultServiceConfig(`{"methodConfig": [
		{"name": [{"service": "s", "method": "m"}], "waitForReady": true, "timeout": "2s",
			"maxRequestMessageBytes": 3, "maxResponseMessageBytes": 4},
		{"name": [{"service": "s"}], "timeout": "5s"}]}`))
	m := cc.GetMethodConfig("/s/m")
	if m.WaitForReady == nil || !*m.WaitForReady || m.Timeout == nil || *m.Timeout != 2*time.Second ||
		m.MaxReqSize == nil || *m.MaxReqSize != 3 || m.MaxRespSize == nil || *m.MaxRespSize != 4 {
		t.Errorf("of the method: %+v", m)
	}
	if m = cc.GetMethodConfig("/s/other"); m.Timeout == nil || *m.Timeout != 5*time.Second {
		t.Errorf("of the service: %+v", m)
	}
	for _, name := range []string{"/t/m", "none"} {
		if m = cc.GetMethodConfig(name); m.Timeout != nil || m.WaitForReady != nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
