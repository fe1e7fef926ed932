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

// greeter echoes payloads.
type greeter struct{ pb.UnimplementedGreeterServer }

func (greeter) SayHello(_ context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
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

// row is a line of the table.
type row struct {
	name    string
	format  string
	measure func(context.Context, pb.GreeterClient, time.Duration) (float64, error)
}

const callers = 64

var rows = []row{
	{"one caller, 32 B: us", "%.0f", oneCaller},
	{"64 callers, 32 B: calls/s", "%.0f", unary(32)},
	{"64 callers, 1 KiB: calls/s", "%.0f", unary(1 << 10)},
	{"64 callers, 64 KiB: calls/s", "%.0f", unary(64 << 10)},
	{"64 streams, ping-pong: msgs/s", "%.0f", pingPong},
	{"one way, 32 B: msgs/s", "%.0f", oneWay(32, 1)},
	{"one way, 64 KiB: MB/s", "%.0f", oneWay(64<<10, 64<<10/1e6)},
}

// oneCaller returns the median time of a call, in microseconds.
func oneCaller(ctx context.Context, c pb.GreeterClient, d time.Duration) (float64, error) {
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	var took []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end); {
		begin := time.Now()
		if _, err := c.SayHello(ctx, in); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / 1e3, nil
}

// together runs one function per caller until d has passed, and returns how often each second it
// was called.
func together(d time.Duration, begin func() (step func() error, err error)) (float64, error) {
	var stop atomic.Bool
	var n atomic.Int64
	errs := make(chan error, callers)
	var all sync.WaitGroup
	start := time.Now()
	for range callers {
		step, err := begin()
		if err != nil {
			return 0, err
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
	rate := float64(n.Load()) / time.Since(start).Seconds()
	select {
	case err := <-errs:
		return 0, err
	default:
		return rate, nil
	}
}

func unary(size int) func(context.Context, pb.GreeterClient, time.Duration) (float64, error) {
	return func(ctx context.Context, c pb.GreeterClient, d time.Duration) (float64, error) {
		in := &pb.HelloRequest{Payload: make([]byte, size)}
		return together(d, func() (func() error, error) {
			return func() error {
				_, err := c.SayHello(ctx, in)
				return err
			}, nil
		})
	}
}

func pingPong(ctx context.Context, c pb.GreeterClient, d time.Duration) (float64, error) {
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
) func(context.Context, pb.GreeterClient, time.Duration) (float64, error) {
	return func(ctx context.Context, c pb.GreeterClient, d time.Duration) (float64, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := c.SayHelloAgain(ctx, &pb.HelloRequest{Payload: make([]byte, size)})
		if err != nil {
			return 0, err
		}
		n := 0
		start := time.Now()
		for ; time.Since(start) < d; n++ {
			if _, err := s.Recv(); err != nil {
				return 0, err
			}
		}
		return float64(n) / time.Since(start).Seconds() * unit, nil
	}
}
