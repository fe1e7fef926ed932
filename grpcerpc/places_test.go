package grpcerpc_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// TestPlaces: beyond MaxConcurrentStreams calls of both kinds wait, and no longer than their
// contexts.
func TestPlaces(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxConcurrentStreams(1))
	ctx, cancel := context.WithCancel(within(t))
	first, err := r.client.Chat(ctx)
	is(t, "the first stream", err, codes.OK)
	is(t, "send", first.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
	_, err = first.Recv()
	is(t, "receive", err, codes.OK)

	short, end := context.WithTimeout(within(t), 20*time.Millisecond)
	defer end()
	_, err = r.client.Chat(short)
	is(t, "another stream", err, codes.DeadlineExceeded)
	_, err = r.client.SayHello(short, &pb.HelloRequest{})
	is(t, "a call", err, codes.DeadlineExceeded)

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
			is(t, "a call that waits", err, codes.OK)
			s, err := r.client.Chat(within(t))
			is(t, "a stream that waits", err, codes.OK)
			is(t, "the end", s.CloseSend(), codes.OK)
			for ; err == nil; _, err = s.Recv() {
			}
		})
	}
	cancel()
	all.Wait()
}

// TestPlacesStop: calls that wait for a place end when their connection does.
func TestPlacesStop(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxConcurrentStreams(1))
	first, err := r.client.Chat(within(t))
	is(t, "the first stream", err, codes.OK)
	is(t, "send", first.Send(&pb.HelloRequest{Name: "x"}), codes.OK)
	_, err = first.Recv()
	is(t, "receive", err, codes.OK)
	ended := make(chan error, 1)
	go func() {
		_, err := r.client.SayHello(within(t), &pb.HelloRequest{})
		ended <- err
	}()
	r.server.Stop()
	is(t, "the call", eventually(t, ended, "the call"), codes.Unavailable)
}

// TestHeaderLimit: a client learns how large a call's header may be, and ends calls beyond it.
func TestHeaderLimit(t *testing.T) {
	r := newRig(t, nil, grpcerpc.MaxHeaderListSize(1000))
	call := func(n int) error {
		ctx := metadata.AppendToOutgoingContext(within(t), "k", string(make([]byte, n)))
		ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("k-bin", string(make([]byte, n))))
		_, err := r.client.SayHello(ctx, &pb.HelloRequest{})
		return err
	}
	is(t, "small metadata", call(100), codes.OK)
	is(t, "large metadata", call(800), codes.Internal)
	ctx := metadata.AppendToOutgoingContext(within(t), "k-bin", string(make([]byte, 800)))
	_, err := r.client.Chat(ctx)
	is(t, "a stream", err, codes.Internal)
}
