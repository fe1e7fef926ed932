package erpc_test

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// stepper makes RPCs one after the other, all of their memory reused.
type stepper struct {
	p         *memPair
	req, resp *erpc.MsgBuffer
	respSize  int
	done      int
	failed    error
	finish    erpc.Continuation // bound once
	before    func()            // called by the handler
}

func newStepper(tb testing.TB, cfg erpc.Config, reqSize, respSize int) *stepper {
	w := &stepper{respSize: respSize}
	w.finish = w.ended
	w.p = newMemPair(tb, cfg, func(n *erpc.Nexus) {
		if err := n.Register(1, erpc.Dispatch, w.handle); err != nil {
			tb.Fatal(err)
		}
	})
	var err error
	if w.req, err = w.p.client.Alloc(reqSize); err != nil {
		tb.Fatal(err)
	}
	if w.resp, err = w.p.client.Alloc(respSize); err != nil {
		tb.Fatal(err)
	}
	return w
}

func (w *stepper) handle(h erpc.ReqHandle) {
	if w.before != nil {
		w.before()
	}
	buf, err := h.Alloc(w.respSize)
	if err == nil {
		err = h.Respond(buf)
	}
	if err != nil {
		w.failed = err
	}
}

func (w *stepper) ended(c erpc.Completion) {
	w.done++
	if c.Err != nil || c.Resp.Size() != w.respSize {
		w.failed = fmt.Errorf("%d bytes, %w", c.Resp.Size(), c.Err)
	}
}

// rpc makes one RPC and steps both ends until it is done.
func (w *stepper) rpc(tb testing.TB) {
	want := w.done + 1
	if _, err := w.p.client.EnqueueRequest(w.p.sess,
		erpc.Request{Type: 1, Req: w.req, Resp: w.resp, Done: w.finish}); err != nil {
		tb.Fatal(err)
	}
	for w.done < want {
		w.p.step()
	}
	if w.failed != nil {
		tb.Fatal(w.failed)
	}
}

// TestNoAllocations: in steady state neither side allocates, for small RPCs and for
// those of many packets, with and without checksums, heartbeats and scans included.
func TestNoAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	for _, cfg := range []erpc.Config{{}, {Checksum: true}, {PSK: testPSK}} {
		checksum := cfg.Checksum
		for _, size := range [][2]int{{32, 32}, {0, 0}, {1448, 1448}, {32, 20_000}, {20_000, 32},
			{200_000, 200_000}} {
			t.Run(fmt.Sprintf("%d-%d-%v-%v", size[0], size[1], checksum, cfg.PSK != nil),
				func(t *testing.T) {
					w := newStepper(t, cfg, size[0], size[1])
					for range 50 {
						w.rpc(t)
					}
					if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 {
						t.Errorf("%v allocations for one RPC", n)
					}
					w.req.Free()
					w.resp.Free()
					w.p.close()
				})
		}
	}
}

// TestNoAllocationsOwnBuffer: the same where the library makes the response's buffer.
func TestNoAllocationsOwnBuffer(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	w := newStepper(t, erpc.Config{}, 32, 5000)
	w.resp.Free()
	w.resp = nil
	w.finish = func(c erpc.Completion) {
		w.ended(c)
		c.Resp.Free()
	}
	for range 50 {
		w.rpc(t)
	}
	if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 {
		t.Errorf("%v allocations for one RPC", n)
	}
	w.req.Free()
	w.p.close()
}

// TestNoAllocationsIdle: an idle session, whose heartbeats go on, allocates nothing.
func TestNoAllocationsIdle(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.rpc(t)
	w.p.tick = 50e6 // a heartbeat each ten steps
	for range 50 {
		w.p.step()
	}
	if n := testing.AllocsPerRun(500, w.p.step); n != 0 {
		t.Errorf("%v allocations for one step", n)
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// benchmarkRPC keeps window RPCs in flight and counts the time of both sides
// together, without any I/O but two copies in memory.
func benchmarkRPC(
	b *testing.B, cfg erpc.Config, window, reqSize, respSize int, watch ...func(*memPair),
) {
	w := newStepper(b, cfg, reqSize, respSize)
	for _, fn := range watch {
		fn(w.p)
	}
	left := b.N
	var again erpc.Continuation
	start := func(req, resp *erpc.MsgBuffer) {
		left--
		if _, err := w.p.client.EnqueueRequest(w.p.sess,
			erpc.Request{Type: 1, Req: req, Resp: resp, Done: again}); err != nil {
			b.Fatal(err)
		}
	}
	again = func(c erpc.Completion) {
		w.ended(c)
		if left > 0 {
			start(c.Req, c.Resp)
		}
	}
	b.ReportAllocs()
	b.SetBytes(int64(reqSize + respSize))
	b.ResetTimer()
	for range min(window, b.N) {
		req, _ := w.p.client.Alloc(reqSize)
		resp, _ := w.p.client.Alloc(respSize)
		start(req, resp)
	}
	for w.done < b.N {
		w.p.step()
	}
	if w.failed != nil {
		b.Fatal(w.failed)
	}
}

// BenchmarkSmallRPC: 32 bytes each way.
func BenchmarkSmallRPC(b *testing.B) {
	for _, window := range []int{1, 8, 60} {
		for _, checksum := range []bool{false, true} {
			b.Run(fmt.Sprintf("window=%d/checksum=%v", window, checksum), func(b *testing.B) {
				benchmarkRPC(b, erpc.Config{Checksum: checksum, Slots: 64, Credits: 64}, window, 32, 32)
			})
		}
	}
}

// BenchmarkMeteredRPC is SmallRPC without a checksum, with metrics at both sides.
func BenchmarkMeteredRPC(b *testing.B) {
	for _, window := range []int{1, 8, 60} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			benchmarkRPC(b, erpc.Config{Slots: 64, Credits: 64}, window, 32, 32, func(p *memPair) {
				p.snap(p.client)
				p.snap(p.server)
			})
		})
	}
}

// BenchmarkLargeRPC: a request of many packets.
func BenchmarkLargeRPC(b *testing.B) {
	benchmarkRPC(b, erpc.Config{}, 1, 1<<20, 32)
}
