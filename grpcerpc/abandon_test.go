package grpcerpc_test

import (
	"context"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// ends is a stats handler that notes how streams end.
type ends struct {
	sent
	errs chan error
}

func (e *ends) HandleRPC(_ context.Context, r stats.RPCStats) {
	if r, ok := r.(*stats.End); ok {
		e.errs <- r.Error
	}
}

// unread begins a stream of the sleepy rig that has ended at the client, by its server or because
// the connection was lost, and that nobody reads.
func (s *sleepy) unread(t *testing.T, how string, opt grpc.CallOption) context.CancelFunc {
	ctx, cancel := context.WithCancel(within(t))
	if how == "lost" {
		stream, err := s.client.Chat(ctx, opt)
		is(t, "begin", err, codes.OK)
		is(t, "send", stream.Send(&pb.HelloRequest{}), codes.OK)
		_, err = stream.Recv()
		is(t, "receive", err, codes.OK)
		s.cc.LosePipes(func() {})
		until(t, "its end", func() bool { return stream.Send(&pb.HelloRequest{}) == io.EOF })
		return cancel
	}
	in := &pb.HelloRequest{}
	if how == "messages" {
		in.Times = 3
	}
	stream, err := s.client.SayHelloAgain(ctx, in, opt)
	is(t, "begin", err, codes.OK)
	until(t, "its end", func() bool { return len(stream.Trailer()) > 0 })
	return cancel
}

// TestAbandoned: a stream that has ended and that nobody reads to its end is finished, once, by the
// end of its context or by Close. In the first case its ClientConn can rest.
func TestAbandoned(t *testing.T) {
	for _, how := range []string{"ended", "messages", "lost"} {
		t.Run(how+", cancelled", func(t *testing.T) { abandon(t, how, false) })
		t.Run(how+", closed", func(t *testing.T) { abandon(t, how, true) })
	}
}

func abandon(t *testing.T, how string, closes bool) {
	e := &ends{errs: make(chan error, 10)}
	s := newSleepy(t, grpcerpc.WithIdleTimeout(time.Hour), grpcerpc.WithStatsHandler(e))
	finished := make(chan error, 10)
	cancel := s.unread(t, how, grpc.OnFinish(func(err error) { finished <- err }))
	defer cancel()
	s.clock.Advance(5 * time.Hour)
	if s.built.Load() == s.closed.Load() {
		t.Error("the ClientConn rests before")
	}
	if closes {
		is(t, "close", s.cc.Close(), codes.OK)
	} else {
		cancel()
	}
	is(t, "OnFinish", eventually(t, finished, "OnFinish"), codes.Canceled)
	is(t, "stats", status.Convert(eventually(t, e.errs, "End")).Err(), codes.Canceled)
	if !closes {
		until(t, "rest", func() bool {
			s.clock.Advance(5 * time.Hour)
			return s.built.Load() == s.closed.Load()
		})
		is(t, "close", s.cc.Close(), codes.OK)
	}
	cancel()
	if len(finished)+len(e.errs) > 0 {
		t.Error("the stream was finished again")
	}
}
