package grpcerpc_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestBlockedCalls: calls whose handlers block, with requests of many bytes, stop neither the
// streams of their connection nor its small calls.
func TestBlockedCalls(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Chat(within(t))
	is(t, "a stream", err, codes.OK)
	var held sync.WaitGroup
	large := &pb.HelloRequest{Name: "wait", Payload: make([]byte, 70<<10)}
	for range 200 {
		held.Go(func() {
			if _, err := r.client.SayHello(within(t), large); err != nil {
				t.Errorf("a call that blocks: %v", err)
			}
		})
	}
	for range 200 {
		eventually(t, r.began, "a handler")
	}
	for range 100 {
		is(t, "send", s.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
		in, err := s.Recv()
		is(t, "receive", err, codes.OK)
		if !strings.HasSuffix(in.Message, "x") {
			t.Errorf("%q", in.Message)
		}
		_, err = r.client.SayHello(within(t), &pb.HelloRequest{})
		is(t, "a small call", err, codes.OK)
	}
	close(r.release)
	held.Wait()
	is(t, "close", s.CloseSend(), codes.OK)
	_, _ = drain(s.Recv)
}

// TestStreamsOfFewSlots: where the server refuses further sessions, calls that block stop no stream
// of 8 slots and more, also when streams say much that is not answered. Of 4 slots calls that end
// do not.
func TestStreamsOfFewSlots(t *testing.T) {
	for slots, blocked := range map[int]int{4: 0, 8: 4, 16: 10, 64: 57} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			r := newRig(t, []grpcerpc.DialOption{grpcerpc.WithConfig(erpc.Config{Slots: slots})},
				grpcerpc.ServerConfig(erpc.Config{MaxSessions: 1, Slots: slots}))
			var calls sync.WaitGroup
			call := func(name string, n int) {
				for range n {
					if _, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: name}); err != nil {
						t.Errorf("a call: %v", err)
					}
				}
			}
			for range blocked + min(blocked, 1) { // more than find slots
				calls.Go(func() { call("wait", 1) })
			}
			for range blocked {
				eventually(t, r.began, "a handler")
			}
			if blocked == 0 {
				for range 4 {
					calls.Go(func() { call("", 100) })
				}
			}
			for range 8 { // as many exchanges, one after the other
				said, err := r.client.Collect(within(t))
				is(t, "a stream that is not answered", err, codes.OK)
				is(t, "say", said.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
				eventually(t, r.began, "its handler")
				defer func() {
					out, err := said.CloseAndRecv()
					if err != nil || out.Message != "wait" {
						t.Errorf("a stream that was not answered: %v, %v", out, err)
					}
				}()
			}
			s, err := r.client.Chat(within(t))
			is(t, "a stream", err, codes.OK)
			for range 100 {
				is(t, "send", s.Send(&pb.HelloRequest{Payload: make([]byte, 20_000)}), codes.OK)
				_, err = s.Recv()
				is(t, "receive", err, codes.OK)
			}
			close(r.release)
			calls.Wait()
			is(t, "close", s.CloseSend(), codes.OK)
			_, _ = drain(s.Recv)
		})
	}
}
