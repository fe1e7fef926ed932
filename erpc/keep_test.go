package erpc_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

const typeKeep = 30

// keeper is a Func that keeps its requests.
type keeper struct {
	mu   sync.Mutex
	kept [][]byte
}

func (k *keeper) handle(_ context.Context, req []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, req)
	return req, nil
}

// check compares what was kept with patterns of the sizes, whose seeds are their places.
func (k *keeper) check(t *testing.T, when string, sizes []int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) != len(sizes) {
		t.Fatalf("%s: %d requests were kept, want %d", when, len(k.kept), len(sizes))
	}
	for i, size := range sizes {
		if !bytes.Equal(k.kept[i], pattern(i, size)) {
			t.Fatalf("%s: request %d, of %d bytes, has changed", when, i, size)
		}
	}
}

// TestHandlerKeepsRequests: a Func of Handle may keep its request for ever, and write to it.
func TestHandlerKeepsRequests(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	var k keeper
	g.handle(t, typeKeep, k.handle)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	var sizes []int
	for i, size := range []int{0, 1, 32, 1000, 1448, 1449, 5000, 100_000, 1 << 20} {
		if err := echo(c, typeKeep, i, size); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
	}
	k.check(t, "after the responses", sizes)
	for i := range 8 {
		for _, size := range sizes {
			if err := echo(c, typeEcho, 100+i, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.check(t, "after later requests", sizes)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	k.check(t, "after the session's end", sizes)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	k.check(t, "after Server.Close", sizes)
	for _, b := range k.kept {
		clear(b) // a fault if the memory were somebody else's
	}
}

// TestBorrowedRequestGoesBack: a Func of HandleBorrowed sees its request while it runs. When the
// response has left, builds with invariants have written over it.
func TestBorrowedRequestGoesBack(t *testing.T) {
	for _, size := range []int{1, 1000, 5000} {
		synctest.Test(t, func(t *testing.T) {
			var k keeper
			p := newServedPair(t, func(s *erpc.Server) error { return s.HandleBorrowed(typeKeep, k.handle) })
			res := p.enqueue(typeKeep, size, 0)
			p.stepUntil(func() bool { return len(p.tasks) == 1 })
			p.runTasks()
			p.stepUntil(func() bool { return res.ends > 0 })
			is(t, "the call", res.err, nil)
			want := make([]byte, size)
			fillPattern(want)
			if !bytes.Equal(res.resp, want) {
				t.Errorf("%d bytes: the handler saw something else", size)
			}
			if invariants.Enabled && !bytes.Equal(k.kept[0], bytes.Repeat([]byte{0xDB}, size)) {
				t.Errorf("%d bytes: the request is still there: % x", size, k.kept[0])
			}
			p.shutdown()
			p.finish(t)
		})
	}
}

// inlineExecutor runs background handlers at once, in the loop.
type inlineExecutor struct{}

func (inlineExecutor) Submit(t erpc.Task) bool {
	t.Run()
	return true
}

// BenchmarkHandle: a request of some bytes, an empty response, both sides together; the
// difference of the two ways is the copy.
func BenchmarkHandle(b *testing.B) {
	for _, size := range []int{32, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("own/%d", size), func(b *testing.B) {
			benchmarkHandle(b, (*erpc.Server).Handle, size)
		})
		b.Run(fmt.Sprintf("borrowed/%d", size), func(b *testing.B) {
			benchmarkHandle(b, (*erpc.Server).HandleBorrowed, size)
		})
	}
}

func benchmarkHandle(b *testing.B, handle func(*erpc.Server, uint8, erpc.Func) error, size int) {
	sum := 0
	serve := func(_ context.Context, req []byte) ([]byte, error) {
		sum += int(req[0]) + int(req[len(req)-1])
		return nil, nil
	}
	cfg := erpc.Config{}
	cfg.Simulation.Executor = inlineExecutor{}
	w := &stepper{}
	w.finish = w.ended
	w.p = newMemPair(b, cfg, func(n *erpc.Nexus) {
		is(b, "handle", handle(erpc.ServerOf(n), 1, serve), nil)
	})
	var err error
	if w.req, err = w.p.client.Alloc(size); err != nil {
		b.Fatal(err)
	}
	if w.resp, err = w.p.client.Alloc(0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		w.rpc(b)
	}
}
