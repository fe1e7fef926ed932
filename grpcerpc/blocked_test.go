package grpcerpc_test

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

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
