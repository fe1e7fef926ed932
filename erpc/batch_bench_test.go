package erpc_test

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// batchStepper makes rounds of RPCs, all of their memory reused, that a batch handler or an
// ordinary one answers.
type batchStepper struct {
	p      *memPair
	bufs   [][2]*erpc.MsgBuffer // of requests and responses
	typ    uint8
	done   int
	failed error
	finish erpc.Continuation // bound once
}

const oneByOne, byTheBurst = 1, 2

func newBatchStepper(tb testing.TB, typ uint8, window int) *batchStepper {
	w := &batchStepper{typ: typ}
	w.finish = w.ended
	w.p = newMemPair(tb, erpc.Config{Slots: 64, Credits: 64}, func(n *erpc.Nexus) {
		is(tb, "register", n.Register(oneByOne, erpc.Dispatch, w.answer), nil)
		is(tb, "register", n.RegisterBatch(byTheBurst, func(reqs []erpc.ReqHandle) {
			for _, h := range reqs {
				w.answer(h)
			}
		}), nil)
	})
	for range window {
		req, err := w.p.client.Alloc(32)
		is(tb, "alloc", err, nil)
		resp, err := w.p.client.Alloc(32)
		is(tb, "alloc", err, nil)
		w.bufs = append(w.bufs, [2]*erpc.MsgBuffer{req, resp})
	}
	return w
}

// answer reads the request and answers with as many bytes.
func (w *batchStepper) answer(h erpc.ReqHandle) {
	data := h.Data()
	buf, err := h.Alloc(len(data))
	if err == nil {
		buf.Data()[0] = data[0]
		err = h.Respond(buf)
	}
	if err != nil {
		w.failed = err
	}
}

func (w *batchStepper) ended(c erpc.Completion) {
	w.done++
	if c.Err != nil {
		w.failed = c.Err
	}
}

// round makes one RPC for each pair of buffers.
func (w *batchStepper) round(tb testing.TB) {
	want := w.done + len(w.bufs)
	for _, b := range w.bufs {
		q := erpc.Request{Type: w.typ, Req: b[0], Resp: b[1], Done: w.finish}
		if _, err := w.p.client.EnqueueRequest(w.p.sess, q); err != nil {
			tb.Fatal(err)
		}
	}
	for w.done < want {
		w.p.step()
	}
	if w.failed != nil {
		tb.Fatal(w.failed)
	}
}

func (w *batchStepper) close() {
	for _, b := range w.bufs {
		b[0].Free()
		b[1].Free()
	}
	w.p.close()
}

// TestNoAllocationsBatch: nor do batches allocate, of one request or of many.
func TestNoAllocationsBatch(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	for _, window := range []int{1, 60} {
		w := newBatchStepper(t, byTheBurst, window)
		for range 50 {
			w.round(t)
		}
		if n := testing.AllocsPerRun(200, func() { w.round(t) }); n != 0 {
			t.Errorf("%v allocations for a batch of %d", n, window)
		}
		w.close()
	}
}

// BenchmarkBatchRPC measures the cost to both sides of an RPC whose handler takes bursts, beside
// one whose handler takes single requests, in rounds of window.
func BenchmarkBatchRPC(b *testing.B) {
	for _, window := range []int{1, 8, 60} {
		for _, typ := range []uint8{oneByOne, byTheBurst} {
			name := [...]string{oneByOne: "dispatch", byTheBurst: "batch"}[typ]
			b.Run(fmt.Sprintf("window=%d/%s", window, name), func(b *testing.B) {
				w := newBatchStepper(b, typ, window)
				w.round(b)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					w.round(b)
				}
				b.StopTimer()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*window), "ns/RPC")
				w.close()
			})
		}
	}
}
