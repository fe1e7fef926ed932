package grpcerpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// whoAnswers calls until all servers have answered, and at least n times.
func whoAnswers(t *testing.T, client pb.GreeterClient, servers, n int) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for i := 0; i < n || len(got) < servers; i++ {
		var p peer.Peer
		_, err := client.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p), grpc.WaitForReady(true))
		is(t, "a call", err, codes.OK)
		got[p.Addr.String()]++
	}
	return got
}

// TestTargets: grpc's resolvers and balancers choose among servers.
func TestTargets(t *testing.T) {
	checkLeaks(t)
	_, a := serve(t, newGreeter())
	_, b := serve(t, newGreeter())
	_, port, _ := net.SplitHostPort(a)
	m := manual.NewBuilderWithScheme("mine")
	m.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: a}, {Addr: b}}})
	robin := grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin":{}}]}`)
	least := grpcerpc.WithDefaultServiceConfig(
		`{"loadBalancingConfig": [{"least_request_experimental":{}}]}`)
	named := grpcerpc.WithDefaultServiceConfig(`{"loadBalancingPolicy": "least_request_experimental"}`)
	for _, v := range []struct {
		target  string
		servers int
		opts    []grpcerpc.DialOption
	}{
		{a, 1, nil}, {"dns:///" + a, 1, nil}, {"dns:///localhost:" + port, 1, nil},
		{"passthrough:///" + a, 1, nil}, {a + "," + b, 1, nil},
		{"static:///" + a + "," + b, 2, []grpcerpc.DialOption{robin}},
		{"static:///" + a + "," + b, 2, []grpcerpc.DialOption{least}},
		{"static:///" + a + "," + b, 2, []grpcerpc.DialOption{named}},
		{"mine:///x", 2, []grpcerpc.DialOption{robin, grpcerpc.WithResolvers(m)}},
	} {
		cc := connect(t, v.target, v.opts...)
		got := whoAnswers(t, pb.NewGreeterClient(cc), v.servers, 20)
		if len(got) != v.servers {
			t.Errorf("%s: %v answered, want %d servers", v.target, got, v.servers)
		}
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFailover: when a server stops gracefully, its clients go to the other one, and no unary call
// fails.
func TestFailover(t *testing.T) {
	checkLeaks(t)
	first, a := serve(t, newGreeter())
	_, b := serve(t, newGreeter())
	cc := connect(t, a+","+b)
	client := pb.NewGreeterClient(cc)
	whoAnswers(t, client, 1, 1)
	stopped := make(chan bool, 1)
	go func() {
		first.GracefulStop()
		stopped <- true
	}()
	for done := false; !done; {
		var p peer.Peer
		_, err := client.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p))
		is(t, "a call", err, codes.OK)
		done = p.Addr.String() == b
	}
	eventually(t, stopped, "GracefulStop")
}

// TestServerComesBack: a call that waits gets a server that starts again at the same address.
func TestServerComesBack(t *testing.T) {
	checkLeaks(t)
	s, addr := serve(t, newGreeter())
	cc := connect(t, addr, grpcerpc.WithConfig(hurried),
		grpcerpc.WithConnectParams(grpc.ConnectParams{}))
	client := pb.NewGreeterClient(cc)
	whoAnswers(t, client, 1, 1)
	s.Stop()
	back := grpcerpc.NewServer()
	pb.RegisterGreeterServer(back, newGreeter())
	tr, err := listenAt(addr)
	is(t, "listen", err, codes.OK)
	ended := make(chan error, 1)
	go func() { ended <- back.Serve(tr) }()
	for err = status.Error(codes.Unavailable, ""); err != nil; { // the old one may end under a call
		is(t, "a call", err, codes.Unavailable)
		_, err = client.SayHello(within(t), &pb.HelloRequest{}, grpc.WaitForReady(true))
	}
	back.Stop()
	is(t, "Serve", eventually(t, ended, "Serve"), codes.OK)
}

// flaky fails some calls with Unavailable.
type flaky struct {
	pb.UnimplementedGreeterServer
	calls atomic.Int32
}

func (f *flaky) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	if f.calls.Add(1) < 3 {
		return nil, status.Error(codes.Unavailable, "not yet")
	}
	return &pb.HelloReply{}, nil
}

// TestRetry: calls are repeated where the service config says so, and only there.
func TestRetry(t *testing.T) {
	checkLeaks(t)
	config := `{"methodConfig": [{"name": [{"service": "helloworld.Greeter"}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.01s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	f := new(flaky)
	_, addr := serve(t, f)
	cc := connect(t, addr)
	_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call without retries", err, codes.Unavailable)
	f.calls.Store(0)
	cc = connect(t, addr, grpcerpc.WithDefaultServiceConfig(config))
	_, err = pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call with retries", err, codes.OK)
	if n := f.calls.Load(); n != 3 {
		t.Errorf("%d calls ran, want 3", n)
	}
}

// TestServiceConfig: what a service config says of methods holds; what cannot be is an error.
func TestServiceConfig(t *testing.T) {
	r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithDefaultServiceConfig(`{"methodConfig": [
		{"name": [{"service": "helloworld.Greeter", "method": "SayHello"}], "timeout": "0.01s"},
		{"name": [{"service": "helloworld.Greeter"}], "maxRequestMessageBytes": 100}]}`)})
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
	is(t, "a timeout", err, codes.DeadlineExceeded)
	_, err = r.client.SayHelloAgain(within(t), &pb.HelloRequest{Name: strings.Repeat("x", 200)})
	is(t, "a large message", err, codes.ResourceExhausted)
	for _, text := range []string{
		`x`, `{"loadBalancingConfig": [{"none": {}}]}`,
		`{"methodConfig": [{"name": [{}], "timeout": "1"}]}`,
		`{"methodConfig": [], "retryThrottling": {}}`,
		`{"methodConfig": [], "retryThrottling": {"maxTokens": 1001, "tokenRatio": 1}}`,
		`{"methodConfig": [{"name": [{}], "retryPolicy": {}}]}`, `{"methodConfig": [{"name": [{}, {}]}]}`,
	} {
		if cc, err := grpcerpc.NewClient("x:1", grpcerpc.WithDefaultServiceConfig(text)); err == nil {
			t.Errorf("%s: no error", text)
			_ = cc.Close()
		}
	}
}

// token is a credential.
type token struct {
	secure bool
	err    error
}

func (c token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"One": "secret", "two-bin": "x"}, c.err
}

func (c token) RequireTransportSecurity() bool { return c.secure }

// TestCredentials: the metadata of credentials travels; credentials that need security are refused.
func TestCredentials(t *testing.T) {
	r := newRig(t, nil)
	call := func(c token) error {
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "metadata"},
			grpc.PerRPCCredentials(c))
		return err
	}
	is(t, "a token", call(token{}), codes.OK)
	is(t, "a token that needs security", call(token{secure: true}), codes.Unauthenticated)
	is(t, "no token", call(token{err: errors.New("none")}), codes.Internal)
	for _, opt := range []grpcerpc.DialOption{
		grpcerpc.WithPerRPCCredentials(token{secure: true}),
		grpcerpc.WithTransportCredentials(credentials.NewTLS(nil)),
	} {
		if cc, err := grpcerpc.NewClient("x:1", opt); err == nil {
			t.Error("no error")
			_ = cc.Close()
		}
	}
}

// TestUnknownService: a handler of unknown services gets calls of all kinds.
func TestUnknownService(t *testing.T) {
	r := newRig(t, nil, grpcerpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error {
		m := new(pb.HelloRequest)
		if err := ss.RecvMsg(m); err != nil {
			return err
		}
		return ss.SendMsg(&pb.HelloReply{Message: "proxy " + m.Name})
	}))
	out := new(pb.HelloReply)
	err := r.cc.Invoke(within(t), "/any.Service/Method", &pb.HelloRequest{Name: "x"}, out)
	if err != nil || out.Message != "proxy x" {
		t.Fatal(out, err)
	}
	s, err := r.cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/any.Service/Stream")
	is(t, "begin", err, codes.OK)
	is(t, "send", s.SendMsg(&pb.HelloRequest{Name: "y"}), codes.OK)
	if err := s.RecvMsg(out); err != nil || out.Message != "proxy y" {
		t.Fatal(out, err)
	}
	if err := s.RecvMsg(out); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

// TestServerLost: when a server dies, all that is under way ends with Unavailable.
func TestServerLost(t *testing.T) {
	checkLeaks(t)
	g := newGreeter()
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, g)
	tr, err := overUDP()
	is(t, "listen", err, codes.OK)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	cc := connect(t, tr.LocalAddr().String(), grpcerpc.WithConfig(erpc.Config{Timing: erpc.Timing{
		Heartbeat: 100e6, FailureTimeout: 1e9, ConnectTimeout: 1e9}}))
	client := pb.NewGreeterClient(cc)
	stream, err := client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", stream.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
	unary := make(chan error, 1)
	go func() {
		_, err := client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		unary <- err
	}()
	eventually(t, g.began, "a handler")
	eventually(t, g.began, "the other one")
	_ = tr.Close() // as if the process were gone
	_, err = stream.Recv()
	is(t, "the stream", err, codes.Unavailable)
	is(t, "the call", eventually(t, unary, "the call"), codes.Unavailable)
	s.Stop()
	<-ended
}
