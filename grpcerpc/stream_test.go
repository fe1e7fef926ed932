package grpcerpc_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

func TestServerStream(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.SayHelloAgain(within(t), &pb.HelloRequest{Name: "x", Times: 1000})
	is(t, "begin", err, codes.OK)
	for i := range 1000 {
		if out, err := s.Recv(); err != nil || out.Message != "x" {
			t.Fatalf("message %d: %v, %v", i, out, err)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
	if got := s.Trailer().Get("sent"); len(got) != 1 {
		t.Errorf("trailer: %v", s.Trailer())
	}
}

func TestClientStream(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Collect(within(t))
	is(t, "begin", err, codes.OK)
	for range 1000 {
		is(t, "send", s.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
	}
	out, err := s.CloseAndRecv()
	is(t, "close", err, codes.OK)
	if len(out.Message) != 1000 {
		t.Errorf("%d of 1000 messages arrived", len(out.Message))
	}
}

// TestChat: messages go both ways in turns, of all sizes.
func TestChat(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	for i, size := range []int{0, 1, 100, 65535, 65536, 70000, 262144, 1 << 20, 4<<20 - 100, 0} {
		name := fmt.Sprint(i)
		is(t, "send", s.Send(&pb.HelloRequest{Name: name, Payload: make([]byte, size)}), codes.OK)
		out, err := s.Recv()
		if err != nil || out.Message != "Hello "+name || len(out.Payload) != size {
			t.Fatalf("message %d: %q, %d of %d bytes, %v",
				i, out.GetMessage(), len(out.GetPayload()), size, err)
		}
	}
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

// TestBothWaysAtOnce: one goroutine sends while another one receives.
func TestBothWaysAtOnce(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	const n = 500
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := s.Send(&pb.HelloRequest{Payload: make([]byte, i*7%5000)}); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	for i := range n {
		out, err := s.Recv()
		if err != nil || len(out.Payload) != i*7%5000 {
			t.Fatalf("message %d: %d bytes, %v", i, len(out.GetPayload()), err)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	is(t, "sender", eventually(t, sent, "the sender"), codes.OK)
}

// TestSmallMessages: a stream is not at its end when small messages have used its window many times
// over.
func TestSmallMessages(t *testing.T) {
	r := newRig(t, nil)
	const n = 40_000
	s, err := r.client.SayHelloAgain(within(t), &pb.HelloRequest{Times: n})
	is(t, "begin", err, codes.OK)
	for range n {
		_, err := s.Recv()
		is(t, "receive", err, codes.OK)
	}
	up, err := r.client.Collect(within(t))
	is(t, "begin", err, codes.OK)
	for range n {
		is(t, "send", up.Send(&pb.HelloRequest{}), codes.OK)
	}
	_, err = up.CloseAndRecv()
	is(t, "close", err, codes.OK)
}

// TestStreamEndsEarly: the server's status comes before the client has sent all.
func TestStreamEndsEarly(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Collect(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{Name: "enough"}), codes.OK)
	for err = nil; err == nil; {
		err = s.Send(&pb.HelloRequest{Name: "x"})
	}
	if err != io.EOF {
		t.Errorf("Send after the end: %v", err)
	}
	_, err = s.CloseAndRecv()
	is(t, "the end", err, codes.FailedPrecondition)
}

// TestStreamCancelled: the handler's context ends with the client's.
func TestStreamCancelled(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(within(t))
	s, err := r.client.Chat(ctx)
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
	at := eventually(t, r.began, "the handler")
	cancel()
	_, err = s.Recv()
	is(t, "a cancelled stream", err, codes.Canceled)
	eventually(t, at.Done(), "the end of the handler's context")
}

// TestStreamMetadata: the header comes before the first message, and the client can wait for it.
func TestStreamMetadata(t *testing.T) {
	r := newRig(t, nil, grpcerpc.StreamInterceptor(func(srv any, ss grpc.ServerStream,
		_ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(ss.Context())
		if err := grpc.SendHeader(ss.Context(), metadata.Pairs("back", md.Get("there")[0])); err != nil {
			return err
		}
		return next(srv, ss)
	}))
	s, err := r.client.Chat(metadata.AppendToOutgoingContext(within(t), "there", "x"))
	is(t, "begin", err, codes.OK)
	md, err := s.Header()
	if err != nil || len(md.Get("back")) != 1 {
		t.Errorf("header: %v, %v", md, err)
	}
	is(t, "send", s.Send(&pb.HelloRequest{Name: "fail"}), codes.OK)
	_, err = s.Recv()
	is(t, "the end", err, codes.Aborted)
}

// TestReaderThatStops: a stream whose client does not read holds up itself alone, and what waits
// for it is bounded.
func TestReaderThatStops(t *testing.T) {
	r := newRig(t, nil)
	in := &pb.HelloRequest{Name: "x", Times: 400, Payload: make([]byte, 10000)}
	stopped, err := r.client.SayHelloAgain(within(t), in)
	is(t, "begin", err, codes.OK)
	_, err = stopped.Recv()
	is(t, "the first message", err, codes.OK)
	for range 3 {
		other, err := r.client.SayHelloAgain(within(t), in)
		is(t, "another stream", err, codes.OK)
		n := 0
		for ; err == nil; n++ {
			_, err = other.Recv()
		}
		if err != io.EOF || n != 401 {
			t.Fatalf("another stream: %d messages, %v", n-1, err)
		}
	}
	for range 399 {
		_, err = stopped.Recv()
		is(t, "a message later", err, codes.OK)
	}
}

// TestManyIdle: idle streams and blocked calls stop nobody.
func TestManyIdle(t *testing.T) {
	r := newRig(t, nil)
	n := 300
	if testing.Short() {
		n = 100
	}
	ctx, cancel := context.WithCancel(within(t))
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for range n {
		s, err := r.client.Chat(ctx)
		is(t, "an idle stream", err, codes.OK)
		calls.Go(func() { _, _ = s.Recv() })
		calls.Go(func() { _, _ = r.client.SayHello(ctx, &pb.HelloRequest{Name: "wait"}) })
	}
	for range n {
		eventually(t, r.began, "a blocked call")
	}
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
	is(t, "a call beside them", err, codes.OK)
	s, err := r.client.Chat(within(t))
	is(t, "a stream beside them", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	_, err = s.Recv()
	if err != io.EOF {
		t.Error(err)
	}
}

// TestGracefulStop: calls and streams under way end as they would; new ones are refused, and come
// to another server if there is one.
func TestGracefulStop(t *testing.T) {
	r := newRig(t, nil)
	ctx := within(t)
	s, err := r.client.Chat(ctx)
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	unary := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(ctx, &pb.HelloRequest{Name: "wait"})
		unary <- err
	}()
	eventually(t, r.began, "the call")
	stopped := make(chan bool, 1)
	go func() {
		r.server.GracefulStop()
		stopped <- true
	}()
	for { // until the server refuses
		limited, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := r.client.SayHello(limited, &pb.HelloRequest{})
			ended <- err
		}()
		if err := eventually(t, ended, "a new call"); err != nil {
			is(t, "a new call", err, codes.Unavailable)
			cancel()
			break
		}
		cancel()
	}
	is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
	_, err = s.Recv()
	is(t, "receive", err, codes.OK)
	is(t, "close", s.CloseSend(), codes.OK)
	if _, err = s.Recv(); err != io.EOF {
		t.Errorf("the stream's end: %v", err)
	}
	close(r.release)
	is(t, "the call", eventually(t, unary, "the call"), codes.OK)
	eventually(t, stopped, "GracefulStop")
}

// TestStop: all that is under way ends with Unavailable.
func TestStop(t *testing.T) {
	r := newRig(t, nil)
	s, err := r.client.Chat(within(t))
	is(t, "begin", err, codes.OK)
	is(t, "send", s.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
	unary := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		unary <- err
	}()
	eventually(t, r.began, "a handler")
	eventually(t, r.began, "the other one")
	r.server.Stop()
	_, err = s.Recv()
	if err == nil || err == io.EOF {
		t.Errorf("the stream: %v", err)
	}
	if err := eventually(t, unary, "the call"); err == nil {
		t.Error("the call succeeded")
	}
}

// TestGracefulStopGone: a client that closes after it was told that the server stops is noticed,
// also if nothing of it waits at the server but a handler that reads its stream.
func TestGracefulStopGone(t *testing.T) {
	for _, heard := range []bool{true, false} {
		r := newRig(t, nil)
		s, err := r.client.Chat(within(t))
		is(t, "begin", err, codes.OK)
		is(t, "send", s.Send(&pb.HelloRequest{}), codes.OK)
		if heard { // nobody waits for more, so the server has no exchange
			_, err = s.Recv()
			is(t, "receive", err, codes.OK)
		} else {
			is(t, "send", s.Send(&pb.HelloRequest{Name: "wait"}), codes.OK)
			eventually(t, r.began, "the handler")
		}
		stopped := make(chan bool, 1)
		go func() {
			r.server.GracefulStop()
			stopped <- true
		}()
		if !r.cc.WaitForStateChange(within(t), connectivity.Ready) {
			t.Error("the client was not told")
		}
		is(t, "close", r.cc.Close(), codes.OK)
		eventually(t, stopped, "GracefulStop")
	}
}

// TestUnreadStream: a server's messages come while nobody receives them, as many as the window has,
// and its handler returns. They can be read when the server has stopped since.
func TestUnreadStream(t *testing.T) {
	returned := make(chan error, 1)
	r := newRig(t, nil, grpcerpc.StreamInterceptor(func(srv any, ss grpc.ServerStream,
		_ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		err := handler(srv, ss)
		returned <- err
		return err
	}))
	s, err := r.client.SayHelloAgain(within(t), &pb.HelloRequest{Times: 20,
		Payload: make([]byte, 10<<10)})
	is(t, "begin", err, codes.OK)
	is(t, "the handler", eventually(t, returned, "the handler"), codes.OK)
	r.server.GracefulStop()
	n := 0
	for _, err = s.Recv(); err == nil; _, err = s.Recv() {
		n++
	}
	if err != io.EOF || n != 20 {
		t.Errorf("%d messages, then %v", n, err)
	}
}
