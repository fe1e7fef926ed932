package grpcerpc_test

import (
	"fmt"
	"sync"
	"testing"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

func BenchmarkUnary(b *testing.B) {
	r := newRig(b, nil)
	in := &pb.HelloRequest{Payload: make([]byte, 32)}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := r.client.SayHello(b.Context(), in); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkPingPong has one message of each of 64 streams under way.
func BenchmarkPingPong(b *testing.B) {
	r := newRig(b, nil)
	b.ReportAllocs()
	var all sync.WaitGroup
	const streams = 64
	ctx := within(b)
	for range streams {
		s, err := r.client.Chat(ctx)
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			in := &pb.HelloRequest{Payload: make([]byte, 32)}
			for range (b.N + streams - 1) / streams {
				if err := s.Send(in); err != nil {
					b.Error(err)
				}
				if _, err := s.Recv(); err != nil {
					b.Error(err)
				}
			}
			_ = s.CloseSend()
			_, _ = s.Recv()
		})
	}
	all.Wait()
}

// BenchmarkOneWay has a server send messages of 64 KiB in one stream.
func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{32, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := newRig(b, nil)
			s, err := r.client.SayHelloAgain(within(b),
				&pb.HelloRequest{Payload: make([]byte, size), Times: int32(b.N)})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for range b.N {
				if _, err := s.Recv(); err != nil {
					b.Fatal(err)
				}
			}
			report(b, r)
		})
	}
}

// BenchmarkLarge makes unary calls of 64 KiB from 64 goroutines.
func BenchmarkLarge(b *testing.B) {
	r := newRig(b, nil)
	in := &pb.HelloRequest{Payload: make([]byte, 64<<10)}
	b.SetBytes(64 << 10)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := r.client.SayHello(b.Context(), in); err != nil {
				b.Error(err)
			}
		}
	})
	report(b, r)
}

// report adds how many packets were repeated.
func report(b *testing.B, r *rig) {
	again := r.cc.Stats().Protocol.Retransmits + r.server.Stats()[0].Protocol.Retransmits
	b.ReportMetric(float64(again)/float64(b.N), "again/op")
}
