package grpcerpc_test

import (
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

func init() {
	balancer.Register(base.NewBalancerBuilder("by_base", byBase{}, base.Config{HealthCheck: true}))
}

// byBase makes pickers that take the connections in turn, as older policies do.
type byBase struct{}

func (byBase) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := new(turnPicker)
	for sc := range info.ReadySCs {
		p.list = append(p.list, sc)
	}
	return p
}

type turnPicker struct {
	mu   sync.Mutex
	next int
	list []balancer.SubConn
}

func (p *turnPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	return balancer.PickResult{SubConn: p.list[p.next%len(p.list)]}, nil
}

// TestHealthCheck: servers whose service is not serving get no calls, until it is. A server without
// the health service is healthy. It holds for policies that listen for health and for older ones.
func TestHealthCheck(t *testing.T) {
	for _, name := range []string{"round_robin", "by_base"} {
		for _, network := range []string{"grpc-go", "grpcerpc"} {
			t.Run(name+"/"+network, func(t *testing.T) {
				checkLeaks(t)
				testHealthCheck(t, name, network == "grpc-go")
			})
		}
	}
}

func testHealthCheck(t *testing.T, policy string, tcp bool) {
	var said [2]*health.Server
	var addrs [3]string
	for i := range addrs {
		s := grpcerpc.NewServer()
		pb.RegisterGreeterServer(s, newGreeter())
		if i < len(said) {
			said[i] = health.NewServer()
			said[i].SetServingStatus("greeter", healthpb.HealthCheckResponse_NOT_SERVING)
			healthpb.RegisterHealthServer(s, said[i])
		}
		if tcp {
			addrs[i] = serveTCP(t, s)
		} else {
			addrs[i] = serveIt(t, s)
		}
	}
	config := func(service string) string {
		return `{"loadBalancingConfig": [{"` + policy + `": {}}], "healthCheckConfig": {` + service + `}}`
	}
	dial := func(config string, list ...string) pb.GreeterClient {
		return pb.NewGreeterClient(dialList(t, tcp, config, list...))
	}
	answers := func(c pb.GreeterClient) (addr string) {
		var p peer.Peer
		_, err := c.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p), grpc.WaitForReady(true))
		is(t, "a call", err, codes.OK)
		return p.Addr.String()
	}
	only := func(what string, c pb.GreeterClient, want ...string) {
		t.Helper()
		seen := make(map[string]bool)
		for range 1000 { // what was said may be on its way
			clear(seen)
			for range 10 {
				seen[answers(c)] = true
			}
			same := len(seen) == len(want)
			for _, w := range want {
				same = same && seen[w]
			}
			if same {
				return
			}
		}
		t.Fatalf("%s: %v answered, want %v", what, seen, want)
	}
	c := dial(config(`"serviceName": "greeter"`), addrs[:]...)
	only("without the service", c, addrs[2])
	said[0].SetServingStatus("greeter", healthpb.HealthCheckResponse_SERVING)
	only("one serves", c, addrs[0], addrs[2])
	said[1].SetServingStatus("greeter", healthpb.HealthCheckResponse_SERVING)
	only("both serve", c, addrs[:]...)
	said[0].SetServingStatus("greeter", healthpb.HealthCheckResponse_NOT_SERVING)
	only("one does not any more", c, addrs[1:]...)
	only("the empty name", dial(config(""), addrs[:2]...), addrs[:2]...)
	if !tcp {
		cc := connect(t, "static:///"+addrs[0], grpcerpc.WithDisableHealthCheck(),
			grpcerpc.WithDefaultServiceConfig(config(`"serviceName": "greeter"`)))
		only("switched off", pb.NewGreeterClient(cc), addrs[0])
	}
}

// serveIt serves until the test ends.
func serveIt(t *testing.T, s *grpcerpc.Server) (addr string) {
	t.Helper()
	tr, err := overUDP()
	is(t, "listen", err, codes.OK)
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	t.Cleanup(func() {
		s.Stop()
		ranUntilStop(t, <-served)
	})
	return tr.LocalAddr().String()
}

// dialList connects to a list of addresses.
func dialList(t *testing.T, tcp bool, config string, list ...string) grpc.ClientConnInterface {
	t.Helper()
	if !tcp {
		target := "static:///"
		for _, a := range list {
			target += a + ","
		}
		return connect(t, target, grpcerpc.WithDefaultServiceConfig(config))
	}
	r, state := manual.NewBuilderWithScheme("mine"), resolver.State{}
	for _, a := range list {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
	}
	r.InitialState(state)
	cc, err := grpc.NewClient("mine:///x", grpc.WithResolvers(r),
		grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	is(t, "dial", err, codes.OK)
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}
