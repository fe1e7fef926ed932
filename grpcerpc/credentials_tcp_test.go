package grpcerpc_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// identified answers with the SPIFFE ID of the client.
type identified struct{ pb.UnimplementedGreeterServer }

func (identified) SayHello(ctx context.Context, _ *pb.HelloRequest) (*pb.HelloReply, error) {
	p, _ := peer.FromContext(ctx)
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && info.SPIFFEID != nil {
		return &pb.HelloReply{Message: info.SPIFFEID.String()}, nil
	}
	return &pb.HelloReply{Message: "nobody"}, nil
}

// greet makes a call and checks who asked, or how it failed.
func greet(t *testing.T, what string, cc grpc.ClientConnInterface, want string, code codes.Code) {
	t.Helper()
	got, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, what, err, code)
	if err == nil && got.Message != want {
		t.Errorf("%s: %q asked, want %q", what, got.Message, want)
	}
}

// overGRPC returns a ClientConn of grpc-go.
func overGRPC(t *testing.T, addr string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(c))
	is(t, "a client of grpc-go", err, codes.OK)
	t.Cleanup(func() { is(t, "close", cc.Close(), codes.OK) })
	return cc
}

// twoWays returns a ClientConn of grpcerpc.
func twoWays(t *testing.T, addr string, opts []grpcerpc.DialOption) *grpcerpc.ClientConn {
	t.Helper()
	cc, err := grpcerpc.NewClient("passthrough:///"+addr, opts...)
	is(t, "a client", err, codes.OK)
	t.Cleanup(func() { is(t, "close", cc.Close(), codes.OK) })
	return cc
}

const tlsID = "spiffe://test/node"

// TestCredsForGRPC: credentials of NewTLS are as good for grpc-go's own server and client, and
// ClientCAs alone demand certificates there too, also those of a config for one client.
func TestCredsForGRPC(t *testing.T) {
	ca := sectest.NewCA("ours")
	cfg := ca.Config("127.0.0.1", tlsID)
	chosen := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return cfg, nil
	}}
	node := grpcerpc.NewTLS(cfg)
	for what, creds := range map[string]credentials.TransportCredentials{
		"a config": node, "a copy": node.Clone(), "a config for the client": grpcerpc.NewTLS(chosen),
	} {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		is(t, "listen", err, codes.OK)
		s := grpc.NewServer(grpc.Creds(creds))
		pb.RegisterGreeterServer(s, identified{})
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(lis) }()
		addr := lis.Addr().String()
		greet(t, what, overGRPC(t, addr, node), tlsID, codes.OK)
		nobody := grpcerpc.NewTLS(&tls.Config{RootCAs: ca.Pool})
		greet(t, what+", without a certificate", overGRPC(t, addr, nobody), "", codes.Unavailable)
		s.Stop()
		is(t, "Serve", <-ended, codes.OK)
	}
}

// TestTCPLikeSessions: over TCP a Server and a ClientConn demand the security of their sessions,
// however it was given, and nothing goes to or comes from a plain peer. Shared keys are none of
// TLS's.
func TestTCPLikeSessions(t *testing.T) {
	ca := sectest.NewCA("ours")
	cfg := ca.Config("127.0.0.1", tlsID)
	node := grpcerpc.NewTLS(cfg)
	psk := [][]byte{make([]byte, 32)}
	udpOnly := grpcerpc.WithTransport(overUDP)
	plain := insecure.NewCredentials()
	sealed, shared := hurried, hurried
	sealed.TLS, shared.PSK = cfg, psk
	open := grpcerpc.NewServer()
	pb.RegisterGreeterServer(open, identified{})
	openAddr := serveTCP(t, open)
	for _, c := range []struct {
		what   string
		server grpcerpc.ServerOption
		client []grpcerpc.DialOption
		code   codes.Code // with each other
	}{
		{"credentials", grpcerpc.Creds(node), []grpcerpc.DialOption{
			grpcerpc.WithTransportCredentials(node), udpOnly, grpcerpc.WithConfig(hurried)}, codes.OK},
		{"Config.TLS", grpcerpc.ServerConfig(erpc.Config{TLS: cfg}), []grpcerpc.DialOption{
			udpOnly, grpcerpc.WithConfig(sealed)}, codes.OK},
		{"TLS of Loops", grpcerpc.ServerConfig(erpc.Config{TLS: cfg}), []grpcerpc.DialOption{
			grpcerpc.WithLoops(grpcerpc.NewLoops(overUDP, sealed))}, codes.OK},
		{"a shared key", grpcerpc.ServerConfig(erpc.Config{PSK: psk}), []grpcerpc.DialOption{
			udpOnly, grpcerpc.WithConfig(shared)}, codes.Unavailable},
	} {
		s := grpcerpc.NewServer(c.server)
		pb.RegisterGreeterServer(s, identified{})
		addr := serveTCP(t, s)
		both := append(c.client, grpcerpc.WithTCP("")) // nobody answers over erpc
		greet(t, c.what, twoWays(t, addr, both), tlsID, c.code)
		greet(t, c.what+": a plain client", overGRPC(t, addr, plain), "", codes.Unavailable)
		greet(t, c.what+": a plain server", twoWays(t, openAddr, both), "",
			codes.Unavailable)
		if c.code == codes.OK {
			greet(t, c.what+": grpc-go", overGRPC(t, addr, node), tlsID, codes.OK)
		}
	}
}
