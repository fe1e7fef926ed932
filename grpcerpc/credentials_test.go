package grpcerpc_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// privateToken is a per-RPC credential that wants a private connection, as those of OAuth do.
type privateToken struct{}

func (privateToken) GetRequestMetadata(
	ctx context.Context, _ ...string,
) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	err := credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity)
	return map[string]string{"authorization": "open sesame"}, err
}
func (privateToken) RequireTransportSecurity() bool { return true }

// TestNewTLS: with credentials of NewTLS calls go over sealed sessions, the handler learns who
// asks, and credentials that need a private connection are sent. Other peers are refused.
func TestNewTLS(t *testing.T) {
	ca, other := sectest.NewCA("ours"), sectest.NewCA("theirs")
	const id = "spiffe://test/client"
	type call struct{ asked, said string }
	seen := make(chan call, 8)
	look := func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler,
	) (any, error) {
		var c call
		p, _ := peer.FromContext(ctx)
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && info.SPIFFEID != nil {
			c.asked = info.SPIFFEID.String()
		}
		md, _ := metadata.FromIncomingContext(ctx)
		c.said = strings.Join(md.Get("authorization"), "")
		seen <- c
		return h(ctx, req)
	}
	creds := grpcerpc.WithTransportCredentials(grpcerpc.NewTLS(ca.Config("", id)).Clone())
	r := newRig(t, []grpcerpc.DialOption{creds, grpcerpc.WithPerRPCCredentials(privateToken{})},
		grpcerpc.Creds(grpcerpc.NewTLS(ca.Config("127.0.0.1", ""))),
		grpcerpc.UnaryInterceptor(look))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "World"},
		grpc.PerRPCCredentials(privateToken{}))
	is(t, "a call", err, codes.OK)
	if c := <-seen; c.asked != id || !strings.HasPrefix(c.said, "open sesame") {
		t.Errorf("%q asked, and said %q", c.asked, c.said)
	}
	cc, err := grpcerpc.NewClient("passthrough:///"+r.addr, creds) // not by the loops that all share
	is(t, "a client without a transport of its own", err, codes.OK)
	_, err = pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{Name: "World"})
	is(t, "its call", err, codes.OK)
	if c := <-seen; c.asked != id {
		t.Errorf("%q asked", c.asked)
	}
	is(t, "close", cc.Close(), codes.OK)
	list := connect(t, "static:///"+r.addr+","+r.addr, creds)
	_, err = pb.NewGreeterClient(list).SayHello(within(t), &pb.HelloRequest{Name: "World"})
	is(t, "a call by a list of addresses", err, codes.OK)
	<-seen
	strange := ca.Config("", id)
	strange.RootCAs = other.Pool
	for name, opts := range map[string][]grpcerpc.DialOption{
		"no security":  nil,
		"another CA":   {grpcerpc.WithTransportCredentials(grpcerpc.NewTLS(strange))},
		"another name": {creds, grpcerpc.WithAuthority("elsewhere.test")},
	} {
		cc := connect(t, "passthrough:///"+r.addr, opts...)
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{Name: "World"})
		is(t, name, err, codes.Unavailable)
	}
}

// TestForeignCreds: credentials that sessions cannot have are refused by name, on either side.
func TestForeignCreds(t *testing.T) {
	c := credentials.NewTLS(sectest.NewCA("test").Config("127.0.0.1", ""))
	_, err := grpcerpc.NewClient("static:///127.0.0.1:1", grpcerpc.WithTransportCredentials(c))
	const advice = `"tls" are not of grpcerpc.NewTLS; ` +
		`write grpcerpc.NewTLS(cfg) with their *tls.Config`
	if err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("a client: %v", err)
	}
	_, err = grpcerpc.NewClient("static:///127.0.0.1:1",
		grpcerpc.WithTransportCredentials(grpcerpc.NewTLS(new(tls.Config))),
		grpcerpc.WithLoops(grpcerpc.NewLoops(overUDP, erpc.Config{})))
	if err == nil || !strings.Contains(err.Error(), "give it Config.TLS") {
		t.Errorf("a client of plain Loops: %v", err)
	}
	defer func() {
		text, _ := recover().(string)
		if !strings.Contains(text, advice) {
			t.Errorf("a server: %q", text)
		}
	}()
	grpcerpc.NewServer(grpcerpc.Creds(c))
}
