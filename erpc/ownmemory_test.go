package erpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/lending"
)

// lent is a transport that lends the memory of packets for long, loses some packets, and notices
// when lent memory changes.
func lent(t *testing.T) *lending.Transport {
	t.Helper()
	lossy, err := faulty.New(listen(t, "127.0.0.1:0"), faulty.Config{TX: faulty.Faults{Loss: 0.02}})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := lending.New(lossy, lending.Config{Inline: 1 << 16, Report: func(v lending.Violation) {
		t.Errorf("memory changed while the transport had it: %+v", v)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestMemoryOfCallers: when a call returns nobody has its request any more, however it ended,
// though packets were lost and sent again; and the response is in the caller's memory if that has
// room.
func TestMemoryOfCallers(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	c, err := erpc.Dial(bg, lent(t), g.serve(t, "127.0.0.1:0"), erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			room := make([]byte, 3, 100_003)
			for n := range 20 {
				request := pattern(i*100+n, []int{100, 4 << 10, 20_000, 100_000, 300_000}[n%5])
				want := bytes.Clone(request)
				response, err := c.AppendCall(bg, room, typeEcho, request)
				clear(request)
				if err != nil || !bytes.Equal(response[3:], want) {
					t.Errorf("%d bytes: %d came back, %v", len(want), len(response), err)
				} else if inside := &response[0] == &room[0]; inside != (len(want) <= 100_000) {
					t.Errorf("%d bytes in the caller's memory: %v", len(want), inside)
				}
			}
		})
	}
	all.Wait()
	for n := range 40 {
		ctx, cancel := context.WithCancel(bg)
		go func() {
			if n%2 == 0 {
				eventually(t, g.started, "the handler")
			}
			cancel() // or while the request is being sent
		}()
		request := pattern(1, 300_000)
		buf := make([]byte, 0, 100_000)
		got, err := c.AppendCall(ctx, buf, typeHold, request)
		clear(request)
		if !errors.Is(err, erpc.ErrCancelled) || len(got) != 0 {
			t.Errorf("given up: %d bytes, %v", len(got), err)
		}
	}
	got, err := c.AppendCall(bg, make([]byte, 7, 100_000), typeFail, pattern(1, 100_000))
	if err == nil || len(got) != 7 {
		t.Errorf("a call that fails: %d bytes, %v", len(got), err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestMemoryOfHandlers: a large response is sent from where the handler has it, however often; the
// server's own memory does not grow by it.
func TestMemoryOfHandlers(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	tr := lent(t)
	g.served.Go(func() { _ = g.Serve(tr) })
	c := dial(t, tr.LocalAddr().String(), erpc.Config{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for _, size := range []int{100, 4<<10 - 1, 4 << 10, 100_000, 4 << 20} {
				got, err := c.Call(bg, typeGrow, binary.LittleEndian.AppendUint32(nil, uint32(size)))
				if err != nil || len(got) != size {
					t.Errorf("caller %d: %d of %d bytes, %v", i, len(got), size, err)
				}
			}
		})
	}
	all.Wait()
	if n := g.Stats()[0].Memory; n > 3<<20 { // a region for each of two pools
		t.Errorf("%d bytes of the server's memory", n)
	}
}

// TestPartOfRequest: a handler that borrows its request may answer with any part of it.
func TestPartOfRequest(t *testing.T) {
	checkLeaks(t)
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	part := func(_ context.Context, b []byte) ([]byte, error) {
		return b[binary.LittleEndian.Uint32(b):binary.LittleEndian.Uint32(b[4:])], nil
	}
	if err := errors.Join(s.HandleBorrowed(1, part), s.Handle(2, part)); err != nil {
		t.Fatal(err)
	}
	g := &rig{Server: s}
	t.Cleanup(func() { _ = g.Close(); g.served.Wait() })
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	request := pattern(5, 300_000)
	for _, r := range [][2]int{{0, 300_000}, {0, 200_000}, {0, 5000}, {1, 300_000},
		{290_000, 300_000}, {100_000, 200_000}, {300_000, 300_000}} {
		binary.LittleEndian.PutUint32(request, uint32(r[0]))
		binary.LittleEndian.PutUint32(request[4:], uint32(r[1]))
		for range 3 { // the request's memory serves the next one
			for typ := range uint8(2) {
				got, err := c.Call(bg, 1+typ, request)
				if err != nil || !bytes.Equal(got, request[r[0]:r[1]]) {
					t.Errorf("type %d, bytes %d to %d: %d came, %v", 1+typ, r[0], r[1], len(got), err)
				}
			}
		}
	}
}

// TestSmallPartOfMemory: a response that is a small part of an array does not keep all of it.
func TestSmallPartOfMemory(t *testing.T) {
	checkLeaks(t)
	freed := make(chan struct{})
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Handle(1, func(context.Context, []byte) ([]byte, error) {
		b := make([]byte, 1<<20)
		runtime.AddCleanup(&b[0], func(done chan struct{}) { close(done) }, freed)
		return b[:5000], nil
	}); err != nil {
		t.Fatal(err)
	}
	g := &rig{Server: s}
	t.Cleanup(func() { _ = g.Close(); g.served.Wait() })
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	if got, err := c.Call(bg, 1, nil); err != nil || len(got) != 5000 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	collected := make(chan bool)
	stop := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-freed:
				return
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer close(stop)
	eventually(t, collected, "the end of the array")
}
