package erpc_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestSendsBack: a handler may answer with any part of a request that it borrows, in a goroutine of
// its own or in the loop.
func TestSendsBack(t *testing.T) {
	t.Run("background", func(t *testing.T) {
		testSendsBack(t, func(s *erpc.Server, part func([]byte) []byte) error {
			return s.HandleBorrowed(typeKeep, func(_ context.Context, b []byte) ([]byte, error) {
				return part(b), nil
			})
		})
	})
	t.Run("loop", func(t *testing.T) {
		testSendsBack(t, func(s *erpc.Server, part func([]byte) []byte) error {
			return s.HandleInline(typeKeep, func(h erpc.ReqHandle) {
				if err := h.RespondBytes(part(h.Data())); err != nil || h.Data() != nil {
					t.Errorf("respond: %v", err)
				}
				is(t, "respond again", h.RespondBytes(part(pattern(0, 9<<20))), erpc.ErrResponded)
			})
		})
	})
}

func testSendsBack(t *testing.T, handle func(*erpc.Server, func([]byte) []byte) error) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	var from, to atomic.Int64 // of the next response
	is(t, "handle", handle(g.Server, func(b []byte) []byte { return b[from.Load():to.Load()] }), nil)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	for i, size := range []int{64<<10 - 1, 64 << 10, 100_000, 1 << 20, 8 << 20} {
		req := pattern(i, size)
		for _, part := range [][2]int{
			{0, size}, {0, size - 1}, {0, 64 << 10}, {0, 10}, {1, size}, {size / 2, size}, {5, 5},
		} {
			if part[1] > size {
				continue
			}
			from.Store(int64(part[0]))
			to.Store(int64(part[1]))
			got, err := c.Call(bg, typeKeep, req)
			if err != nil || !bytes.Equal(got, req[part[0]:part[1]]) {
				t.Fatalf("%d bytes, %v: %d bytes, %v", size, part, len(got), err)
			}
		}
	}
	is(t, "close", c.Close(), nil)
	is(t, "close the server", g.Close(), nil)
}

// TestSendsBackInPlace: for a request that is its own response there is memory where there is none
// for another one, call after call.
func TestSendsBackInPlace(t *testing.T) {
	checkLeaks(t)
	const size = 8 << 20
	g := newRig(t, erpc.Config{MemoryLimit: 2*size + size/4, NoHugepages: true})
	is(t, "handle", g.HandleBorrowed(typeKeep, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	}), nil)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	for i := range 4 {
		is(t, "echo", echo(c, typeKeep, i, size), nil)
	}
	is(t, "close", c.Close(), nil)
	is(t, "close the server", g.Close(), nil)
}

// TestSendsBackDeclared: no answer within what was declared is refused after its handler has run
// (Nexus.MaxResponse), also where the answer is the beginning of a large request.
func TestSendsBackDeclared(t *testing.T) {
	const size, part, calls = 8 << 20, 64 << 10, 3
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("own=", own), func(t *testing.T) {
			g := newRig(t, erpc.Config{MemoryLimit: 44 << 20, NoHugepages: true})
			is(t, "declare", g.MaxResponse(typeKeep, part), nil)
			in, free := make(chan bool, calls), make(chan bool)
			is(t, "handle", g.HandleBorrowed(typeKeep, func(_ context.Context, b []byte) ([]byte, error) {
				in <- true
				<-free
				if own {
					return b[:part], nil
				}
				return b[1 : 1+part], nil
			}), nil)
			c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
			out := make(chan error, calls)
			for range calls {
				go func() {
					ctx, cancel := context.WithTimeout(bg, hang)
					defer cancel()
					_, err := c.Call(ctx, typeKeep, make([]byte, size))
					out <- err
				}()
			}
			for range calls {
				eventually(t, in, "a handler")
			}
			close(free)
			for range calls {
				if err := <-out; err != nil {
					t.Errorf("a handler has run, and its answer, as declared, was refused: %v", err)
				}
			}
		})
	}
}

// TestSendsBackKeepsItsMemory: a request that becomes its own response needs no memory that it has
// not got, so its answer is not refused after its handler has run.
func TestSendsBackKeepsItsMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system has one loopback address")
	}
	const size = 8 << 20
	g := newRig(t, erpc.Config{MemoryLimit: 80 << 20, NoHugepages: true})
	in, free := make(chan bool, 100), make(chan bool)
	told := make(chan error, 100) // what RespondBytes said
	is(t, "handle", g.HandleRequest(typeKeep, func(_ context.Context, h erpc.ReqHandle) {
		in <- true
		<-free
		told <- h.RespondBytes(h.Data())
	}), nil)
	addr := g.serve(t, "127.0.0.1:0")
	call := func(c *erpc.Client, n int) chan error {
		out := make(chan error, n)
		for range n {
			go func() {
				ctx, cancel := context.WithTimeout(bg, hang)
				defer cancel()
				_, err := c.Call(ctx, typeKeep, make([]byte, size))
				out <- err
			}()
		}
		return out
	}
	a := dial(t, addr, erpc.Config{})
	outA := call(a, 6) // 48 of 80 MiB
	for range 6 {
		eventually(t, in, "a handler")
	}
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	b, err := erpc.Dial(ctx, listen(t, "127.0.0.2:0"), addr, erpc.Config{})
	is(t, "dial", err, nil)
	defer func() { is(t, "close", b.Close(), nil) }()
	outB := call(b, 2) // 16 more: three quarters and more
	for range 2 {
		eventually(t, in, "a handler of the other address")
	}
	close(free)
	refused := 0
	for range 6 {
		if err := <-outA; err != nil {
			refused++
			t.Errorf("the first address: %v", err)
		}
	}
	for range 2 {
		if err := <-outB; err != nil {
			t.Errorf("the other address: %v", err)
		}
	}
	for range 8 {
		if <-told != nil {
			refused--
		}
	}
	if refused > 0 {
		t.Errorf("RespondBytes returned nil for %d answers that the library refused", refused)
	}
}

// TestSendsBackLittle: a response that is a small part of its request keeps no more memory than
// itself.
func TestSendsBackLittle(t *testing.T) {
	const size, part = 8 << 20, 64 << 10
	g := newRig(t, erpc.Config{MemoryLimit: 80 << 20, NoHugepages: true})
	is(t, "handle", g.HandleBorrowed(typeKeep, func(_ context.Context, b []byte) ([]byte, error) {
		return b[:part], nil
	}), nil)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	got, err := c.Call(bg, typeKeep, pattern(1, size))
	if err != nil || !bytes.Equal(got, pattern(1, size)[:part]) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if used := g.Rpcs()[0].Snapshot(bg, erpc.SnapshotOptions{}).Memory.Used; used > size/8 {
		t.Errorf("%d bytes are used for a response of %d", used, part)
	}
}
