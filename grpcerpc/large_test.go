package grpcerpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
	"github.com/userspace-rpc/erpc/transport"
)

// TestLargeCalls: large requests and answers arrive as they were sent, beside small ones, when some
// are given up, and until the ClientConn is closed under them.
func TestLargeCalls(t *testing.T) {
	r := newRig(t, nil)
	ctx := within(t)
	var all, first sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		first.Add(1)
		go func() {
			defer all.Done()
			var once sync.Once
			defer once.Do(first.Done)
			for n := 0; ; n++ {
				size := []int{10, 64<<10 - 60, 64 << 10, 100_000, 1 << 20}[n%5]
				in := &pb.HelloRequest{Name: fmt.Sprint(i), Times: int32(size),
					Payload: bytes.Repeat([]byte{byte(i)}, size)}
				limited, cancel := context.WithCancel(ctx)
				if n%7 == 6 {
					go cancel()
				}
				out, err := r.client.SayHello(limited, in)
				cancel()
				if status.Code(err) == codes.Canceled && n%7 == 6 {
					continue
				}
				if n > 10 {
					once.Do(first.Done)
				}
				if err != nil {
					if n <= 10 || status.Code(err) != codes.Canceled {
						t.Errorf("call %d: %v", n, err)
					}
					return
				}
				if len(out.Payload) != size || out.Message != "Hello "+in.Name {
					t.Errorf("call %d: %d of %d bytes", n, len(out.Payload), size)
				}
			}
		}()
	}
	first.Wait()
	is(t, "close", r.cc.Close(), codes.OK)
	all.Wait()
}

// TestNoMemoryForAnswer: an answer for which the server has no memory is not encoded elsewhere, to
// be refused once more.
func TestNoMemoryForAnswer(t *testing.T) {
	r := newRig(t, nil, grpcerpc.ServerConfig(erpc.Config{MemoryLimit: 8 << 20}))
	_, err := r.client.SayHello(within(t), &pb.HelloRequest{Times: 7 << 20})
	is(t, "a large answer", err, codes.ResourceExhausted)
	_, err = r.client.SayHello(within(t), &pb.HelloRequest{Times: 3 << 20})
	is(t, "a smaller one", err, codes.OK)
	r.server.Stop()
	for _, st := range r.server.Stats() {
		if st.Protocol.NoMemory != 1 {
			t.Errorf("memory was refused %d times", st.Protocol.NoMemory)
		}
	}
}

// TestSharedLoops: ClientConns of one Loops share what they can, and the end of one leaves the
// others alone.
func TestSharedLoops(t *testing.T) {
	checkLeaks(t)
	opened := 0
	loops := grpcerpc.NewLoops(func() (transport.Transport, error) {
		opened++
		return overUDP()
	}, erpc.Config{})
	_, addr := serve(t, newGreeter())
	var ccs []*grpcerpc.ClientConn
	for range 20 {
		cc, err := grpcerpc.NewClient("passthrough:///"+addr, grpcerpc.WithLoops(loops))
		is(t, "client", err, codes.OK)
		defer func() { _ = cc.Close() }()
		ccs = append(ccs, cc)
	}
	call := func(cc *grpcerpc.ClientConn) error {
		_, err := pb.NewGreeterClient(cc).SayHello(within(t), &pb.HelloRequest{})
		return err
	}
	for i, cc := range ccs {
		is(t, "a call", call(cc), codes.OK)
		if i%2 == 0 {
			is(t, "close", cc.Close(), codes.OK)
			is(t, "a call of a closed one", call(cc), codes.Canceled)
		}
	}
	for i, cc := range ccs {
		if i%2 == 1 {
			is(t, "a call of those left", call(cc), codes.OK)
			is(t, "close", cc.Close(), codes.OK)
		}
	}
	if opened > 4 {
		t.Errorf("%d transports for 20 clients", opened)
	}
	before := opened
	cc, err := grpcerpc.NewClient("passthrough:///"+addr, grpcerpc.WithLoops(loops))
	is(t, "a client later", err, codes.OK)
	is(t, "its call", call(cc), codes.OK)
	is(t, "its close", cc.Close(), codes.OK)
	if opened != before+1 {
		t.Errorf("%d transports, the last one was not closed with its last client", opened)
	}
	for _, opt := range []grpcerpc.DialOption{
		grpcerpc.WithTransport(overUDP), grpcerpc.WithConfig(hurried),
		grpcerpc.WithTransportCredentials(grpcerpc.NewTLS(new(tls.Config))),
	} {
		if _, err := grpcerpc.NewClient(addr, grpcerpc.WithLoops(loops), opt); err == nil {
			t.Error("WithLoops goes with a transport, a configuration or credentials")
		}
	}
}
