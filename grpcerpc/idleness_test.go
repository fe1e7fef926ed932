package grpcerpc_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// sleepy is a rig with a resolver that is counted and a ClientConn with a clock of its own.
type sleepy struct {
	*rig
	clock         *grpcerpc.FakeClock
	built, closed atomic.Int32 // resolvers
	last          atomic.Pointer[resolver.ClientConn]
}

func newSleepy(t *testing.T, opts ...grpcerpc.DialOption) *sleepy {
	s := &sleepy{rig: newRig(t, nil), clock: grpcerpc.NewFakeClock()}
	m := manual.NewBuilderWithScheme("mine")
	m.InitialState(at(s.addr, nil))
	m.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
		s.last.Store(&cc)
		s.built.Add(1)
	}
	m.CloseCallback = func() { s.closed.Add(1) }
	s.cc = connect(t, "mine:///x", append(opts, grpcerpc.WithResolvers(m),
		grpcerpc.ClientClock(s.clock))...)
	s.client = pb.NewGreeterClient(s.cc)
	return s
}

// rests checks whether the ClientConn does.
func (s *sleepy) rests(t *testing.T, what string, want bool) {
	t.Helper()
	if got := s.cc.GetState() == connectivity.Idle; got != want {
		t.Fatalf("%s: the ClientConn is %v", what, s.cc.GetState())
	}
	if open := s.built.Load() - s.closed.Load(); (open == 0) != want {
		t.Fatalf("%s: %d resolvers", what, open)
	}
}

// TestIdleTimeout: a ClientConn without a call for so long closes its connections and the resolver,
// and has new ones with the next call.
func TestIdleTimeout(t *testing.T) {
	s := newSleepy(t, grpcerpc.WithIdleTimeout(time.Hour))
	s.rests(t, "at first", true)
	unary := make(chan error, 1)
	go func() {
		_, err := s.client.SayHello(within(t), &pb.HelloRequest{Name: "wait"})
		unary <- err
	}()
	eventually(t, s.began, "the handler")
	s.clock.Advance(5 * time.Hour)
	s.rests(t, "during a call", false)
	stream, err := s.client.Collect(within(t))
	is(t, "begin", err, codes.OK)
	close(s.release)
	is(t, "the call", eventually(t, unary, "the call"), codes.OK)
	s.clock.Advance(5 * time.Hour)
	s.rests(t, "during a stream", false)
	_, err = stream.CloseAndRecv()
	is(t, "the stream", err, codes.OK)
	s.clock.Advance(59 * time.Minute)
	s.rests(t, "soon after", false)
	s.hello(t, "a call")
	s.clock.Advance(59 * time.Minute)
	s.rests(t, "soon after another call", false)
	s.clock.Advance(9 * time.Minute)
	s.rests(t, "later", true)
	until(t, "the connection's end", func() bool { all, _, _ := s.server.Conns(); return all == 0 })
	s.clock.Advance(5 * time.Hour)
	if err := (*s.last.Load()).UpdateState(at(s.addr, nil)); err == nil {
		t.Error("a resolver that was closed was heard")
	}
	s.rests(t, "still", true)
	s.hello(t, "a call that wakes it")
	s.rests(t, "awake", false)
	s.clock.Advance(68 * time.Minute)
	s.rests(t, "again", true)
	s.cc.Connect()
	for state := s.cc.GetState(); state != connectivity.Ready; state = s.cc.GetState() {
		s.cc.WaitForStateChange(within(t), state)
	}
	s.clock.Advance(time.Hour)
	s.rests(t, "after Connect without a call", true)
	is(t, "close", s.cc.Close(), codes.OK)
	if n := s.built.Load(); n != 3 || s.closed.Load() != n {
		t.Errorf("%d resolvers were built, %d closed", n, s.closed.Load())
	}
}

// TestIdleDefault: the default is half an hour, and 0 is never.
func TestIdleDefault(t *testing.T) {
	for _, v := range []struct {
		opts []grpcerpc.DialOption
		then time.Duration
		want bool
	}{
		{nil, 5 * time.Minute, true},
		{[]grpcerpc.DialOption{grpcerpc.WithIdleTimeout(0)}, 1000 * time.Hour, false},
	} {
		t.Run("", func(t *testing.T) {
			s := newSleepy(t, v.opts...)
			s.hello(t, "a call")
			s.clock.Advance(29 * time.Minute)
			s.rests(t, "after 29 minutes", false)
			s.clock.Advance(v.then)
			s.rests(t, "later", v.want)
		})
	}
}

// TestIdleUnderLoad: no call fails that comes while its ClientConn is about to rest.
func TestIdleUnderLoad(t *testing.T) {
	const rounds = 100
	s := newSleepy(t, grpcerpc.WithIdleTimeout(8*time.Second))
	for range rounds {
		s.hello(t, "a call")
		var both sync.WaitGroup
		both.Go(func() {
			s.clock.Advance(8 * time.Second)
			s.clock.Advance(8 * time.Second)
		})
		both.Go(func() {
			stream, err := s.client.Collect(t.Context())
			if err == nil {
				_, err = stream.CloseAndRecv()
			}
			if err == nil {
				_, err = s.client.SayHello(t.Context(), &pb.HelloRequest{})
			}
			if err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		s.clock.Advance(16 * time.Second)
		s.rests(t, "after a round", true)
	}
	if n := s.built.Load(); n < rounds {
		t.Errorf("%d resolvers in %d rounds", n, rounds)
	}
}
