package grpcerpc_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// translator carries datagrams between one client and a server, as a NAT does.
type translator struct {
	t      *testing.T
	server *net.UDPAddr
	inside *net.UDPConn // the client sends here
	works  sync.WaitGroup

	mu      sync.Mutex
	client  *net.UDPAddr
	outside *net.UDPConn // the server sees this address
	all     []*net.UDPConn
}

func newTranslator(t *testing.T, server string) *translator {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		t.Fatal(err)
	}
	n := &translator{t: t, server: to}
	n.inside = n.open()
	n.move()
	n.works.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			size, from, err := n.inside.ReadFromUDP(buf)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.client = from
			_, _ = n.outside.WriteToUDP(buf[:size], n.server)
			n.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		for _, c := range n.all {
			_ = c.Close()
		}
		n.works.Wait()
	})
	return n
}

func (n *translator) open() *net.UDPConn {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		n.t.Fatal(err)
	}
	n.all = append(n.all, c)
	return c
}

// move forgets the client's outer address and takes another one. Packets to the old one are lost.
func (n *translator) move() {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.open()
	n.outside = c
	n.works.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			size, err := c.Read(buf)
			if err != nil {
				return
			}
			n.mu.Lock()
			if n.outside == c && n.client != nil {
				_, _ = n.inside.WriteToUDP(buf[:size], n.client)
			}
			n.mu.Unlock()
		}
	})
}

// TestMoves: a client whose address changes goes on with its calls, streams and connection, since
// its packets are authenticated.
func TestMoves(t *testing.T) {
	ca := sectest.NewCA("test")
	who := make(chan string, 1)
	look := func(
		ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler,
	) (any, error) {
		p, _ := peer.FromContext(ctx)
		who <- p.Addr.String()
		return h(ctx, req)
	}
	_, addr := serve(t, newGreeter(), grpcerpc.UnaryInterceptor(look),
		grpcerpc.Creds(grpcerpc.NewTLS(ca.Config("127.0.0.1", ""))))
	n := newTranslator(t, addr)
	cc := connect(t, "passthrough:///"+n.inside.LocalAddr().String(),
		grpcerpc.WithTransportCredentials(grpcerpc.NewTLS(ca.Config("", "spiffe://test/client"))))
	client := pb.NewGreeterClient(cc)
	hello := func(what string) string {
		t.Helper()
		_, err := client.SayHello(within(t), &pb.HelloRequest{Name: "World"})
		is(t, what, err, codes.OK)
		return <-who
	}
	first := hello("a call")
	stream, err := client.Chat(within(t))
	is(t, "a stream", err, codes.OK)
	chat := func(what string) {
		t.Helper()
		is(t, what, stream.Send(&pb.HelloRequest{Name: "World"}), codes.OK)
		_, err := stream.Recv()
		is(t, what, err, codes.OK)
	}
	chat("a message")
	for range 3 {
		n.move()
		chat("a message after the move")
		if now := hello("a call after the move"); now != first {
			t.Errorf("the peer is %s and was %s: it is another connection", now, first)
		}
	}
	is(t, "the end of the stream", stream.CloseSend(), codes.OK)
}
