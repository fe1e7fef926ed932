package erpc_test

import (
	"bytes"
	"context"
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
