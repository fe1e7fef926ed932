package erpc_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/gid"
)

// TestSlowHandlers: handlers that wait hold up no others, whatever comes with them in one packet,
// and each request runs once.
func TestSlowHandlers(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	const typeCount, calls = 40, 300
	var runs [calls]atomic.Int32
	g.handle(t, typeCount, func(ctx context.Context, req []byte) ([]byte, error) {
		n := binary.LittleEndian.Uint32(req)
		runs[n].Add(1)
		if n%3 == 0 {
			select {
			case <-g.release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return req, nil
	})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	var quick, all sync.WaitGroup
	for n := range calls {
		call := func() {
			req := binary.LittleEndian.AppendUint32(nil, uint32(n))
			resp, err := c.Call(bg, typeCount, req)
			if err != nil || string(resp) != string(req) {
				t.Errorf("call %d: %x, %v", n, resp, err)
			}
		}
		if n%3 == 0 {
			all.Go(call)
		} else {
			quick.Go(call)
		}
	}
	quick.Wait() // though the others wait
	close(g.release)
	all.Wait()
	for n := range runs {
		if k := runs[n].Load(); k != 1 {
			t.Errorf("request %d ran %d times", n, k)
		}
	}
}

// TestLoopExit: a callback that ends the goroutine of a server's loop ends Serve.
func TestLoopExit(t *testing.T) {
	s, err := erpc.NewServer(erpc.Config{OnSession: func(*erpc.Rpc, *erpc.Session, erpc.SessionEvent) {
		runtime.Goexit()
	}})
	is(t, "new server", err, nil)
	err = s.Handle(1, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	is(t, "handle", err, nil)
	conn := listen(t, "127.0.0.1:0")
	served := make(chan error)
	go func() { served <- s.Serve(conn) }()
	ctx, cancel := context.WithCancel(bg)
	go func() {
		c, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0"), conn.LocalAddr().String(), erpc.Config{})
		if err == nil {
			_ = c.Close()
		}
	}()
	if err := <-served; err == nil || err == erpc.ErrClosed {
		t.Errorf("Serve ended with %v", err)
	}
	cancel()
	_ = s.Close()
}

// TestQuickHandlers: handlers that return at once run in the goroutine that has the loop, unless
// the number of workers is set.
func TestQuickHandlers(t *testing.T) {
	if !gid.Exact {
		t.Skip("this system does not tell goroutines apart")
	}
	for _, workers := range []int{0, 2} {
		var loop, own atomic.Uintptr
		g := newRig(t, erpc.Config{
			Workers:   workers,
			OnSession: func(*erpc.Rpc, *erpc.Session, erpc.SessionEvent) { loop.Store(gid.Current()) },
		})
		g.handle(t, typeNobody, func(context.Context, []byte) ([]byte, error) {
			if gid.Current() == loop.Load() {
				own.Add(1)
			}
			return nil, nil
		})
		addr := g.serve(t, "127.0.0.1:0")
		for range 3 { // another goroutine may have the loop after the first one
			c := dial(t, addr, erpc.Config{})
			for range 20 {
				_, err := c.Call(bg, typeNobody, nil)
				is(t, "call", err, nil)
			}
		}
		if got := own.Load() > 0; got != (workers == 0) {
			t.Errorf("%d workers: %d of 60 handlers ran in the loop's goroutine", workers, own.Load())
		}
	}
}
