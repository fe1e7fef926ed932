package grpcerpc_test

//lint:file-ignore SA1019 older balancers use what is deprecated

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// curious is pick_first, and lets tests see what balancers are given.
type curious struct{ built chan *curiousConn }

// curiousConn is what a curious has of its ClientConn.
type curiousConn struct {
	balancer.ClientConn
	opts    balancer.BuildOptions
	made    chan balancer.SubConn
	states  chan connectivity.State
	healthy chan connectivity.State
	wrong   atomic.Int32 // health listeners that must not be told, and were
}

var theCurious = curious{make(chan *curiousConn, 1)}

func init() { balancer.Register(theCurious) }

func (curious) Name() string { return "curious" }

func (b curious) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	c := &curiousConn{ClientConn: cc, opts: opts, made: make(chan balancer.SubConn, 1),
		states: make(chan connectivity.State, 99), healthy: make(chan connectivity.State, 99)}
	b.built <- c
	return balancer.Get(pickfirst.Name).Build(c, opts)
}

// NewSubConn has several health listeners registered whenever the connection is ready, of which the
// last one counts.
func (c *curiousConn) NewSubConn(
	list []resolver.Address, opts balancer.NewSubConnOptions,
) (sc balancer.SubConn, err error) {
	next := opts.StateListener
	opts.StateListener = func(s balancer.SubConnState) {
		next(s)
		if s.ConnectivityState == connectivity.Ready {
			sc.RegisterHealthListener(c.never)
			sc.RegisterHealthListener(nil)
			sc.RegisterHealthListener(c.never)
			sc.RegisterHealthListener(func(s balancer.SubConnState) { c.healthy <- s.ConnectivityState })
		}
		c.states <- s.ConnectivityState
	}
	if sc, err = c.ClientConn.NewSubConn(list, opts); err == nil {
		c.made <- sc
	}
	return sc, err
}

func (c *curiousConn) never(balancer.SubConnState) { c.wrong.Add(1) }

// until waits for a state of the connection.
func (c *curiousConn) until(t *testing.T, want connectivity.State) {
	t.Helper()
	for eventually(t, c.states, want.String()) != want {
	}
}

// asker builds a producer that calls the server of its connection by each kind of call.
type asker struct {
	heard chan string
	open  atomic.Int32
}

func (a *asker) Build(cc any) (balancer.Producer, func()) {
	client := pb.NewGreeterClient(cc.(grpc.ClientConnInterface))
	ctx, cancel := context.WithCancel(context.Background())
	a.open.Add(1)
	var asking sync.WaitGroup
	asking.Go(func() {
		out, err := client.SayHello(ctx, &pb.HelloRequest{Name: "once"})
		a.heard <- fmt.Sprint(out.GetMessage(), " ", status.Code(err))
		s, err := client.Chat(ctx)
		if err != nil {
			a.heard <- status.Code(err).String()
			return
		}
		if err = s.Send(&pb.HelloRequest{Name: "stream"}); err == nil {
			out, err = s.Recv()
		}
		a.heard <- fmt.Sprint(out.GetMessage(), " ", status.Code(err))
		_, err = s.Recv() // until the end of the producer
		a.heard <- status.Code(err).String()
	})
	return a, func() {
		cancel()
		asking.Wait()
		a.open.Add(-1)
	}
}

// TestBalancerSees: whatever a balancer asks of its ClientConn and its connections is answered, in
// all their states.
func TestBalancerSees(t *testing.T) {
	checkLeaks(t)
	_, addr := serve(t, newGreeter())
	cc := connect(t, "passthrough:///"+addr,
		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingPolicy": "curious"}`))
	cc.Connect()
	c := eventually(t, theCurious.built, "the balancer")
	if o := c.opts; o.ChannelzParent == nil || o.DialCreds == nil || o.Authority != addr ||
		o.Target.Endpoint() != addr || c.Target() != "passthrough:///"+addr {
		t.Errorf("options: %+v, target %q", o, c.Target())
	}
	c.MetricsRecorder().RegisterAsyncReporter(
		estats.AsyncMetricReporterFunc(func(estats.AsyncMetricsRecorder) error { return nil }))()
	c.ResolveNow(resolver.ResolveNowOptions{})
	sc := eventually(t, c.made, "a connection")
	c.until(t, connectivity.Ready)
	if got := eventually(t, c.healthy, "health"); got != connectivity.Ready {
		t.Errorf("health: %v", got)
	}
	if fmt.Sprint(sc) == "" {
		t.Error("no name")
	}
	a := &asker{heard: make(chan string, 9)}
	hear := func(list ...string) {
		t.Helper()
		for _, want := range list {
			if got := eventually(t, a.heard, want); got != want {
				t.Errorf("the producer heard %q, want %q", got, want)
			}
		}
	}
	_, stop := sc.GetOrBuildProducer(a)
	_, other := sc.GetOrBuildProducer(a)
	hear("Hello once OK", "Hello stream OK")
	stop()
	stop()
	if n := a.open.Load(); n != 1 {
		t.Errorf("%d producers, want one that both have", n)
	}
	c.UpdateAddresses(sc, []resolver.Address{{Addr: addr}}) // another connection, without the producer
	hear("Canceled")
	other()
	c.until(t, connectivity.Ready)
	eventually(t, c.healthy, "health of the next one")
	sc.GetOrBuildProducer(a)
	hear("Hello once OK", "Hello stream OK")
	c.RemoveSubConn(sc)
	c.until(t, connectivity.Shutdown)
	hear("Canceled")
	sc.Connect()
	sc.RegisterHealthListener(c.never)
	_, stop = sc.GetOrBuildProducer(a)
	hear(" Unavailable", "Unavailable")
	stop()
	if n, open := c.wrong.Load(), a.open.Load(); n > 0 || open > 0 {
		t.Errorf("%d health listeners told that were replaced, %d producers left", n, open)
	}
}
