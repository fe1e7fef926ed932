package grpcerpc_test

import (
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
