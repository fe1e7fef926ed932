package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// greeter echoes payloads, but for those of the name "length".
type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(_ context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	if in.Name == "length" {
		return &pb.HelloReply{}, nil
	}
	return &pb.HelloReply{Payload: in.Payload}, nil
}

func (greeter) SayHelloAgain(
	in *pb.HelloRequest, s grpc.ServerStreamingServer[pb.HelloReply],
) error {
	for {
		if err := s.Send(&pb.HelloReply{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

func (greeter) Chat(s grpc.BidiStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&pb.HelloReply{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

// row is a line of the table. Its bars are the least ratios to grpc-go over UDP and in shared
// memory; those of times are the largest. A transport without a bar is not measured.
type row struct {
	name    string
	time    bool
	measure func(context.Context, pb.GreeterClient, time.Duration) (figure, error)
	bars    [2]float64
	cpu     float64 // bar of the CPU per operation; 0 without one
	base    int     // the kind of grpc-go that the ratios are to
}

// kinds returns the kinds that a row measures, its base first.
func (r *row) kinds(bare bool) []int {
	list := []int{r.base}
	for i, kind := range [...]int{udpKind, shmKind} {
		if r.bars[i] > 0 {
			list = append(list, kind)
		}
	}
	if bare {
		list = append(list, bareKind)
	}
	return list
}

// figure is the result of a measurement: a rate per second or a time in microseconds, and how many
// operations there were.
type figure struct {
	value float64
	ops   int
}

const callers = 64

var rows = []row{
	{"one caller, 32 B: us", true, oneCaller, [2]float64{0.25, 0.25}, 0, tcpKind},
	{"one caller, 32 B, unix: us", true, oneCaller, [2]float64{0, 0.1}, 0, unixKind},
	{"64 callers, 32 B: calls/s", false, unary(32), [2]float64{5, 6}, 0.25, tcpKind},
	{"64 callers, 1 KiB: calls/s", false, unary(1 << 10), [2]float64{3, 3}, 0, tcpKind},
	{"64 callers, 64 KiB: calls/s", false, unary(64 << 10), [2]float64{1, 1.3}, 0, tcpKind},
	{"64 streams, ping-pong: msgs/s", false, pingPong, [2]float64{3, 3}, 0, tcpKind},
	{"one way, 32 B: msgs/s", false, oneWay(32, 1), [2]float64{1.2, 1.2}, 0, tcpKind},
	{"one way, 64 KiB: MB/s", false, oneWay(64<<10, 64<<10/1e6), [2]float64{1, 1}, 0, tcpKind},
	{"20,000 calls/s, p99: us", true, openLoop, [2]float64{1, 1}, 0.5, tcpKind},
	{"beside 64 KiB, p99: us", true, beside(64 << 10), [2]float64{1, 1}, 0, tcpKind},
	{"beside 12 MiB, p99: us", true, beside(12 << 20), [2]float64{1, 1}, 0, tcpKind},
}

// oneCaller returns the median time of a call.
func oneCaller(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	var took []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); {
		begin := time.Now()
		if _, err := c.SayHello(ctx, in); err != nil {
			return figure{}, err
		}
		took = append(took, time.Since(begin))
	}
	return quantile(took, 0.5), nil
}

// quantile returns the time that a part of the operations did not take.
func quantile(took []time.Duration, part float64) figure {
	slices.Sort(took)
	at := min(int(part*float64(len(took))), len(took)-1)
	return figure{float64(took[at]) / 1e3, len(took)}
}

// together runs one function per caller until d has passed, and returns how often each second it
// was called.
func together(d time.Duration, begin func() (step func() error, err error)) (figure, error) {
	var stop atomic.Bool
	var n atomic.Int64
	errs := make(chan error, callers)
	var all sync.WaitGroup
	start := time.Now()
	for range callers {
		step, err := begin()
		if err != nil {
			return figure{}, err
		}
		all.Go(func() {
			for !stop.Load() {
				if err := step(); err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
		})
	}
	time.Sleep(d)
	stop.Store(true)
	all.Wait()
	f := figure{float64(n.Load()) / time.Since(start).Seconds(), int(n.Load())}
	select {
	case err := <-errs:
		return f, err
	default:
		return f, nil
	}
}

func unary(size int) func(context.Context, pb.GreeterClient, time.Duration) (figure, error) {
	return func(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
		in := &pb.HelloRequest{Payload: make([]byte, size)}
		return together(d, func() (func() error, error) {
			return func() error {
				_, err := c.SayHello(ctx, in)
				return err
			}, nil
		})
	}
}

func pingPong(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	return together(d, func() (func() error, error) {
		s, err := c.Chat(ctx)
		return func() error {
			if err := s.Send(in); err != nil {
				return err
			}
			_, err := s.Recv()
			return err
		}, err
	})
}

// oneWay returns how many messages of a server come each second, times unit.
func oneWay(
	size int, unit float64,
) func(context.Context, pb.GreeterClient, time.Duration) (figure, error) {
	return func(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := c.SayHelloAgain(ctx, &pb.HelloRequest{Payload: make([]byte, size)})
		if err != nil {
			return figure{}, err
		}
		n := 0
		start := time.Now()
		for ; time.Since(start) < d; n++ {
			if _, err := s.Recv(); err != nil {
				return figure{}, err
			}
		}
		return figure{float64(n) / time.Since(start).Seconds() * unit, n}, nil
	}
}

// openLoop begins 20,000 calls each second, whether or not those before have ended, and returns the
// time that one of a hundred takes longer than, from when it was to begin.
func openLoop(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
	const rate = 20_000
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	n := int(d.Seconds() * rate)
	took, errs := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	start := time.Now()
	for i := 0; i < n; {
		for due := min(int(time.Since(start).Seconds()*rate), n); i < due; i++ {
			call, at := i, start.Add(time.Duration(i)*time.Second/rate)
			all.Go(func() {
				_, errs[call] = c.SayHello(ctx, in)
				took[call] = time.Since(at)
			})
		}
		time.Sleep(200 * time.Microsecond)
	}
	all.Wait()
	return quantile(took, 0.99), errors.Join(errs...)
}

// beside returns the time that one small call of a hundred takes longer than while another caller
// sends requests of size bytes.
func beside(size int) func(context.Context, pb.GreeterClient, time.Duration) (figure, error) {
	return func(ctx context.Context, c pb.GreeterClient, d time.Duration) (figure, error) {
		ctx, cancel := context.WithCancel(ctx)
		var other sync.WaitGroup
		other.Go(func() {
			in := &pb.HelloRequest{Name: "length", Payload: make([]byte, size)}
			for ctx.Err() == nil {
				_, _ = c.SayHello(ctx, in) // the small ones' errors count
			}
		})
		defer other.Wait()
		defer cancel()
		in := &pb.HelloRequest{Payload: make([]byte, 32)}
		var took []time.Duration
		for end := time.Now().Add(d); time.Now().Before(end); {
			begin := time.Now()
			if _, err := c.SayHello(ctx, in); err != nil {
				return figure{}, err
			}
			took = append(took, time.Since(begin))
		}
		return quantile(took, 0.99), nil
	}
}
