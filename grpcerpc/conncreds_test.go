package grpcerpc_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// bundle is a credentials bundle of two parts.
type bundle struct {
	credentials.Bundle
	transport credentials.TransportCredentials
	perRPC    credentials.PerRPCCredentials
}

func (b *bundle) TransportCredentials() credentials.TransportCredentials { return b.transport }
func (b *bundle) PerRPCCredentials() credentials.PerRPCCredentials       { return b.perRPC }

// theBundling is pick_first with a bundle for its connections.
var theBundling = new(bundling)

type bundling struct {
	balancer.ClientConn // of the balancer under test
	bundle              *bundle
	seen                credentials.Bundle // in BuildOptions
}

func init() { balancer.Register(theBundling) }

func (*bundling) Name() string { return "bundling" }

func (b *bundling) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	b.ClientConn, b.seen = cc, o.CredsBundle
	return balancer.Get(pickfirst.Name).Build(b, o)
}

func (b *bundling) NewSubConn(
	list []resolver.Address, o balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	if b.bundle != nil {
		o.CredsBundle = b.bundle //lint:ignore SA1019 the test is about it
	}
	return b.ClientConn.NewSubConn(list, o) //lint:ignore SA1019 of other ClientConns, one address
}

// secretly serves over sealed sessions and notes what calls bring.
func secretly(t *testing.T, ca *sectest.CA) (addr string, said chan string) {
	said = make(chan string, 8)
	_, addr = serve(t, newGreeter(), grpcerpc.Creds(grpcerpc.NewTLS(ca.Config("127.0.0.1", ""))),
		grpcerpc.UnaryInterceptor(func(
			ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler,
		) (any, error) {
			p, _ := peer.FromContext(ctx)
			md, _ := metadata.FromIncomingContext(ctx)
			said <- p.AuthInfo.AuthType() + " " + strings.Join(md.Get("authorization"), ",")
			return h(ctx, req)
		}))
	return addr, said
}

// TestBundleOfBalancer: the connections of a balancer that gives a bundle have its credentials, and
// their calls too; those that sessions cannot have are refused by name.
func TestBundleOfBalancer(t *testing.T) {
	checkLeaks(t)
	defer func() { theBundling.bundle = nil }()
	ca := sectest.NewCA("ours")
	addr, said := secretly(t, ca)
	config := grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"bundling": {}}]}`)
	sealed, foreign := grpcerpc.NewTLS(ca.Config("", "")), credentials.NewTLS(ca.Config("", ""))
	for _, v := range []struct {
		name string
		b    *bundle
		own  credentials.TransportCredentials
		code codes.Code
		want string
	}{
		{"both", &bundle{transport: sealed, perRPC: privateToken{}}, insecure.NewCredentials(),
			codes.OK, "tls open sesame"},
		{"transport alone", &bundle{transport: sealed}, nil, codes.OK, "tls "},
		{"per RPC alone", &bundle{perRPC: privateToken{}}, sealed, codes.OK, "tls open sesame"},
		{"in the clear", &bundle{perRPC: privateToken{}}, nil, codes.Unavailable, "not sealed"},
		{"plain", &bundle{transport: insecure.NewCredentials()}, sealed, codes.Unavailable, ""},
		{"local", &bundle{transport: local.NewCredentials()}, sealed, codes.Unavailable, ""},
		{"foreign", &bundle{transport: foreign}, nil, codes.Unavailable, "CredsBundle"},
	} {
		theBundling.bundle = v.b
		opts := []grpcerpc.DialOption{config, grpcerpc.WithConfig(hurried)}
		if v.own != nil {
			opts = append(opts, grpcerpc.WithTransportCredentials(v.own))
		}
		cc := connect(t, "passthrough:///"+addr, opts...)
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
		is(t, v.name, err, v.code)
		if err == nil {
			if got := <-said; got != v.want {
				t.Errorf("%s: the server saw %q, want %q", v.name, got, v.want)
			}
		} else if !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: %v, want %q", v.name, err, v.want)
		}
		is(t, "close", cc.Close(), codes.OK)
	}
}

// telling are credentials of another kind that say what they are made of.
type telling struct {
	credentials.TransportCredentials
	cfg *tls.Config
}

func (c telling) SessionTLS() *tls.Config { return c.cfg }

// TestWithCredentialsBundle: a bundle is as good as its parts, and balancers see it; without
// transport credentials, or beside others, it is refused. Credentials of other kinds are as good as
// those of NewTLS if they say what they are made of.
func TestWithCredentialsBundle(t *testing.T) {
	checkLeaks(t)
	ca := sectest.NewCA("ours")
	addr, said := secretly(t, ca)
	cfg := ca.Config("", "")
	b := &bundle{transport: telling{credentials.NewTLS(cfg), cfg}, perRPC: privateToken{}}
	cc := connect(t, "passthrough:///"+addr, grpcerpc.WithCredentialsBundle(b),
		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"bundling": {}}]}`))
	_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
	if got := <-said; got != "tls open sesame" {
		t.Errorf("the server saw %q", got)
	}
	if theBundling.seen != b {
		t.Errorf("the balancer saw %v", theBundling.seen)
	}
	for what, opts := range map[string][]grpcerpc.DialOption{
		"give one of them": {grpcerpc.WithCredentialsBundle(b),
			grpcerpc.WithTransportCredentials(insecure.NewCredentials())},
		"no transport credentials": {grpcerpc.WithCredentialsBundle(&bundle{})},
	} {
		if _, err := grpcerpc.NewClient(addr, opts...); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}
