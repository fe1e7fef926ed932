package grpcerpc_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// far is how long an answer may take that is under way; it is much more than any takes.
const far = 300 * time.Millisecond

// silenced is a ClientConn of servers that a test can cut off.
type silenced struct {
	client pb.GreeterClient
	net    *faulty.Transport
	at     []transport.Addr
	late   sync.WaitGroup // calls that take long
}

func newSilenced(t *testing.T, servers int, policy string) *silenced {
	checkLeaks(t)
	s := &silenced{}
	under, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s.net, err = faulty.New(under, faulty.Config{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for range servers {
		_, addr := serve(t, newGreeter())
		to, err := s.net.Resolve(addr)
		if err != nil {
			t.Fatal(err)
		}
		names, s.at = append(names, addr), append(s.at, to)
	}
	cc := connect(t, "static:///"+strings.Join(names, ","),
		grpcerpc.WithTransport(func() (transport.Transport, error) { return s.net, nil }),
		grpcerpc.WithConfig(erpc.Config{Timing: erpc.Timing{FailureTimeout: hang}}),
		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+policy+`": {}}]}`))
	s.client = pb.NewGreeterClient(cc)
	return s
}

// call makes a call, and reports whether its answer is there at once. It must come some time.
func (s *silenced) call(t *testing.T) bool {
	ended := make(chan error, 1)
	ctx := within(t)
	s.late.Go(func() {
		_, err := s.client.SayHello(ctx, &pb.HelloRequest{Name: "x"})
		if err != nil {
			t.Errorf("a call: %v", err)
		}
		ended <- err
	})
	select {
	case <-ended:
		return true
	case <-time.After(far):
		return false
	}
}

// TestSilentServer: few calls are stuck at a server that falls silent, though its sessions live.
// They are answered when it goes on, and it gets calls again.
func TestSilentServer(t *testing.T) {
	for _, policy := range []string{"round_robin", "pick_first", "least_request_experimental"} {
		t.Run(policy, func(t *testing.T) {
			s := newSilenced(t, 3, policy)
			for range 30 {
				s.call(t)
			}
			s.net.CutAddr(s.at[0], faulty.Both)
			stuck, quick := 0, 0
			for quick < 20 {
				if s.call(t) {
					quick++
				} else if stuck++; stuck > 3 {
					t.Fatal("calls still go to the silent server")
				}
			}
			s.net.CutAddr(s.at[0], faulty.None)
			s.late.Wait()
			s.net.CutAddr(s.at[1], faulty.Both)
			s.net.CutAddr(s.at[2], faulty.Both)
			for !s.call(t) { // it has returned
			}
			s.net.CutAddr(s.at[1], faulty.None)
			s.net.CutAddr(s.at[2], faulty.None)
			s.late.Wait()
		})
	}
}

// TestLastServerSilent: a single server is not left for its silence: calls wait for it.
func TestLastServerSilent(t *testing.T) {
	s := newSilenced(t, 1, "round_robin")
	s.call(t)
	s.net.CutAddr(s.at[0], faulty.Both)
	for range 3 {
		if s.call(t) {
			t.Error("an answer came from nowhere")
		}
	}
	s.net.CutAddr(s.at[0], faulty.None)
	s.late.Wait()
	_, err := s.client.SayHello(context.Background(), &pb.HelloRequest{})
	is(t, "a call", err, codes.OK)
}
