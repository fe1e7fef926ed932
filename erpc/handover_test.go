package erpc_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestHandOver: the background requests of one pass reach the workers together, when the next pass
// begins, and the loop does not sleep before that.
func TestHandOver(t *testing.T) {
	var ran atomic.Int64
	p := newMemPair(t, erpc.Config{Slots: 8}, func(n *erpc.Nexus) {
		err := n.Register(1, erpc.Background, func(h erpc.ReqHandle) {
			ran.Add(1)
			_ = h.RespondBytes(h.Data())
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	e := &errPair{memPair: p}
	for round := range 3 {
		var all []*result
		for range 8 {
			all = append(all, e.enqueue(1, 32, 0))
		}
		ran.Store(0)
		p.until(func() bool { return p.server.Gathered() > 0 })
		if n := p.server.Gathered(); n != 8 || ran.Load() != 0 {
			t.Errorf("round %d: %d requests are gathered, and %d ran", round, n, ran.Load())
		}
		if at := p.server.NextWake(); at > p.net.now {
			t.Errorf("round %d: the loop would sleep for %v", round, at.Sub(p.net.now))
		}
		p.run(p.server)
		if n := p.server.Gathered(); n != 0 {
			t.Errorf("round %d: %d requests are still gathered", round, n)
		}
		for _, res := range all {
			p.until(func() bool { runtime.Gosched(); return res.ends > 0 })
			is(t, "a call", res.err, nil)
		}
	}
	p.close()
}

// TestHandOverBetweenPasses: any call of the endpoint hands them over too.
func TestHandOverBetweenPasses(t *testing.T) {
	ran := make(chan struct{})
	p := newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		err := n.Register(1, erpc.Background, func(h erpc.ReqHandle) {
			close(ran)
			_ = h.RespondBytes(nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	e := &errPair{memPair: p}
	res := e.enqueue(1, 32, 0)
	p.until(func() bool { return p.server.Gathered() == 1 })
	b, err := p.server.Alloc(1)
	is(t, "alloc", err, nil)
	b.Free()
	if n := p.server.Gathered(); n != 0 {
		t.Errorf("%d requests are still gathered", n)
	}
	eventually(t, ran, "the handler")
	p.until(func() bool { runtime.Gosched(); return res.ends > 0 })
	is(t, "the call", res.err, nil)
	p.close()
}

// TestGoexit: a handler that ends its goroutine is answered as one that panics, and its goroutine
// is replaced, be it a worker or one that runs the loop.
func TestGoexit(t *testing.T) {
	for _, workers := range []int{0, 1} {
		_, c := pair(t, erpc.Config{Workers: workers})
		for range 5 {
			_, err := c.Call(bg, typeGoexit, nil)
			is(t, "a handler that ends its goroutine", err, erpc.ErrPanic)
			is(t, "the next call", echo(c, typeEcho, 1, 100), nil)
		}
	}
}
