package grpcerpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// numbered is a message of a row: its number, and bytes that follow from it. One in a thousand is
// larger than a datagram, and one in a hundred thousand larger than a window.
func numbered(i uint64) []byte {
	n := i * 0x9E3779B97F4A7C15 >> 61
	switch {
	case i%100_000 == 50_000:
		n = 300_000
	case i%1000 == 500:
		n = 3000
	}
	return append(binary.LittleEndian.AppendUint64(nil, i), make([]byte, n)...)
}

// row checks that messages come in order, each once.
type row struct{ next atomic.Uint64 }

func (r *row) take(payload []byte) error {
	want := r.next.Load()
	if full := numbered(want); len(payload) != len(full) ||
		binary.LittleEndian.Uint64(payload) != want {
		return fmt.Errorf("message %d: %d bytes, want %d", want, len(payload), len(full))
	}
	r.next.Store(want + 1)
	return nil
}

// counting is a greeter that checks the row which comes, and sends its own at the same time.
type counting struct {
	pb.UnimplementedGreeterServer
	messages uint64
	up       row
	sent     atomic.Uint64
}

func (c *counting) Chat(s grpc.BidiStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	down := make(chan error, 1)
	go func() {
		var err error
		for i := uint64(0); err == nil && i < c.messages; i++ {
			c.sent.Add(1)
			err = s.Send(&pb.HelloReply{Payload: numbered(i)})
		}
		down <- err
	}()
	for {
		in, err := s.Recv()
		if err == nil {
			err = c.up.take(in.Payload)
		}
		if err != nil {
			if sent := <-down; err == io.EOF {
				return sent
			}
			return err
		}
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMillionMessages: a million messages each way on one stream come in order, each once. Nobody
// is ahead of the other side by more than the windows, also while that one does not read, and
// memory does not grow with their number.
func TestMillionMessages(t *testing.T) {
	// A window holds messages and 32 bytes with each; what SendMsg leaves behind is messages alone.
	// All messages together would take three times as much as most.
	const size, most = 10, 64 << 20
	const windows = 256<<10/(size+32) + 64<<10/size
	messages := uint64(1_000_000)
	if testing.Short() {
		messages = 100_000
	}
	checkLeaks(t)
	service := &counting{messages: messages}
	_, addr := serve(t, service)
	client := pb.NewGreeterClient(connect(t, "passthrough:///"+addr))
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	s, err := client.Chat(ctx)
	is(t, "begin", err, codes.OK)
	before := heap()
	done := make(chan error, 1)
	var sent atomic.Uint64
	go func() {
		var err error
		for i := uint64(0); err == nil && i < messages; i++ {
			sent.Add(1)
			err = s.Send(&pb.HelloRequest{Payload: numbered(i)})
		}
		done <- errors.Join(err, s.CloseSend())
	}()
	var down row
	for i := range messages {
		if i%(messages/4) == messages/8 {
			if grown := heap() - before; grown > most {
				t.Errorf("after %d messages %d bytes more are in use", i, grown)
			}
		}
		if lead := service.sent.Load() - down.next.Load(); lead > windows {
			t.Fatalf("the server is %d messages ahead", lead)
		}
		if lead := sent.Load() - min(service.up.next.Load(), sent.Load()); lead > windows {
			t.Fatalf("the client is %d messages ahead", lead)
		}
		out, err := s.Recv()
		if err == nil {
			err = down.take(out.Payload)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	is(t, "sender", eventually(t, done, "the sender"), codes.OK)
	if got := service.up.next.Load(); got != messages {
		t.Errorf("%d of %d messages arrived", got, messages)
	}
}
