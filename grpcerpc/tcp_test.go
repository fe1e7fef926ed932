package grpcerpc_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// serveTCP has a server answer over TCP too, and returns the address.
func serveTCP(t *testing.T, s *grpcerpc.Server, opts ...grpc.ServerOption) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	is(t, "listen", err, codes.OK)
	var served sync.WaitGroup
	served.Go(func() { ranUntilStop(t, s.ServeTCP(lis, opts...)) })
	t.Cleanup(func() {
		s.Stop()
		served.Wait()
	})
	return lis.Addr().String()
}

// network makes a call and a stream, and returns what they travelled over.
func network(t *testing.T, cc *grpcerpc.ClientConn) (unary, stream string) {
	client := pb.NewGreeterClient(cc)
	var p peer.Peer
	_, err := client.SayHello(within(t), &pb.HelloRequest{}, grpc.Peer(&p))
	is(t, "call", err, codes.OK)
	var q peer.Peer
	s, err := client.Chat(within(t), grpc.Peer(&q))
	is(t, "stream", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	return p.Addr.Network(), q.Addr.Network()
}

// TestOneServerBothNetworks: one server answers grpc-go over TCP and grpcerpc, with the same
// services. A client that can uses erpc, another one TCP.
func TestOneServerBothNetworks(t *testing.T) {
	r := newRig(t, nil)
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, r.greeter)
	addr := serveTCP(t, s)
	hasBoth := connect(t, "passthrough:///"+r.addr, grpcerpc.WithTCP("passthrough:///"+addr))
	if u, st := network(t, hasBoth); u != "udp" || st != "udp" {
		t.Errorf("erpc answers, and calls went over %s and %s", u, st)
	}
	onlyTCP := connect(t, "passthrough:///"+addr, grpcerpc.WithTCP(""),
		grpcerpc.WithConfig(hurried))
	if u, st := network(t, onlyTCP); u != "tcp" || st != "tcp" {
		t.Errorf("nobody answers erpc, and calls went over %s and %s", u, st)
	}
	r.server.Stop()
	if !hasBoth.WaitForStateChange(within(t), connectivity.Ready) {
		t.Fatal("the connection stays ready")
	}
	if u, st := network(t, hasBoth); u != "tcp" || st != "tcp" {
		t.Errorf("erpc has ended, and calls went over %s and %s", u, st)
	}
}

// TestRanOverErpc: a call that may have run does not run again over TCP.
func TestRanOverErpc(t *testing.T) {
	r := newRig(t, nil)
	s := grpcerpc.NewServer()
	other := newGreeter()
	pb.RegisterGreeterServer(s, other)
	cc := connect(t, "passthrough:///"+r.addr, grpcerpc.WithTCP("passthrough:///"+serveTCP(t, s)))
	ended := make(chan error, 1)
	go func() {
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		ended <- err
	}()
	eventually(t, r.began, "the handler")
	r.server.Stop()
	if err := eventually(t, ended, "the call"); err == nil {
		t.Error("the call succeeded")
	}
	if len(other.began) != 0 {
		t.Error("the call ran twice")
	}
}

// TestNeverFromTLS: a client with TLS credentials uses TCP with them, and nothing else.
func TestNeverFromTLS(t *testing.T) {
	r := newRig(t, nil)
	secure := grpcerpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{}))
	_, err := grpcerpc.NewClient(r.addr, secure)
	if err == nil || !strings.Contains(err.Error(), "WithTCP") {
		t.Errorf("TLS over erpc: %v", err)
	}
	// The server over TCP has no TLS, and the one over erpc would answer.
	s := grpcerpc.NewServer()
	pb.RegisterGreeterServer(s, r.greeter)
	cc := connect(t, "passthrough:///"+r.addr, secure,
		grpcerpc.WithTCP("passthrough:///"+serveTCP(t, s)))
	_, err = pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call", err, codes.Unavailable)
	st, err := pb.NewGreeterClient(cc).Chat(within(t))
	if err == nil {
		_, err = st.Recv()
	}
	is(t, "a stream", err, codes.Unavailable)
}
