package grpcerpc_test

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// nobody returns an address where nobody answers, over UDP and TCP.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is(t, "listen", err, codes.OK)
	t.Cleanup(func() { _ = l.Close() })
	p, err := net.ListenPacket("udp", l.Addr().String())
	is(t, "listen", err, codes.OK)
	t.Cleanup(func() { _ = p.Close() })
	return l.Addr().String()
}

// TestGracefulSwitch: calls go by the policy of before until another one has a connection, and a
// third may take the place of one that has none.
func TestGracefulSwitch(t *testing.T) {
	both(t, new(failing), "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		r.InitialState(at(addr, nil))
		call := func(what string) {
			t.Helper()
			var p peer.Peer
			_, err := c.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p))
			is(t, what, err, codes.OK)
			if p.Addr.String() != addr {
				t.Errorf("%s: %v answered", what, p.Addr)
			}
		}
		call("by pick_first")
		silent := nobody(t)
		for _, name := range []string{"round_robin", "least_request_experimental", "pick_first"} {
			config := r.CC().ParseServiceConfig(`{"loadBalancingConfig": [{"` + name + `": {}}]}`)
			r.UpdateState(at(silent, config))
			for range 3 {
				call(name + " that cannot connect")
			}
		}
		config := r.CC().ParseServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`)
		r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: silent}, {Addr: addr}},
			ServiceConfig: config})
		for range 100 {
			call("round_robin")
		}
	})
}
