package erpc_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// beside runs fn in a goroutine while both ends are stepped.
func (p *memPair) beside(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	for {
		select {
		case <-done:
			return
		default:
			p.step()
		}
	}
}

// fly takes the record of r.
func (p *memPair) fly(r *erpc.Rpc) (d *flight.Dump) {
	p.beside(func() {
		var err error
		if d, err = r.Flight(context.Background()); err != nil {
			p.tb.Error(err)
		}
	})
	return d
}

// record makes r record.
func (p *memPair) record(r *erpc.Rpc, n int) {
	p.beside(func() {
		if err := r.Record(context.Background(), n); err != nil {
			p.tb.Error(err)
		}
	})
}

// TestFlight: each call is in the records of both sides, whatever its size, with its answer. A file
// brings them back.
func TestFlight(t *testing.T) {
	for _, size := range [][2]int{{32, 32}, {20_000, 32}, {32, 20_000}} {
		w := newStepper(t, erpc.Config{}, size[0], size[1])
		if d := w.p.fly(w.p.client); d != nil {
			t.Error("there is a record though none was asked for")
		}
		for _, r := range []*erpc.Rpc{w.p.client, w.p.server} {
			w.p.record(r, 1000)
		}
		const n = 5
		for range n {
			w.rpc(t)
		}
		for _, r := range []*erpc.Rpc{w.p.client, w.p.server} {
			var file bytes.Buffer
			if err := flight.Write(&file, w.p.fly(r)); err != nil {
				t.Fatal(err)
			}
			dumps, err := flight.Read(&file)
			if err != nil || len(dumps) != 1 || dumps[0].Missed != 0 || dumps[0].Own != r.LocalAddr() {
				t.Fatalf("%d dumps, %v", len(dumps), err)
			}
			calls := dumps[0].Calls()
			if len(calls) != n {
				t.Fatalf("%v: %d calls, want %d", size, len(calls), n)
			}
			for _, c := range calls {
				if c.Client != (r == w.p.client) || c.Type != 1 || c.Answer == 0 || c.Error ||
					c.Again != 0 || c.First > c.Answer || c.Answer > c.Last || c.Hold < 0 {
					t.Errorf("%v: %+v", size, c)
				}
			}
		}
		w.req.Free()
		w.resp.Free()
		w.p.close()
	}
}

// TestFlightOfHandler: a call that its handler answers in the pass that received it took as long as
// the handler.
func TestFlightOfHandler(t *testing.T) {
	const work = 3 * time.Millisecond
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.before = func() { w.p.net.now = w.p.net.now.Add(work) }
	w.p.record(w.p.server, 64)
	w.rpc(t)
	calls := w.p.fly(w.p.server).Calls()
	if len(calls) != 1 || calls[0].Took() < int64(work) || calls[0].Took() > int64(2*work) {
		t.Errorf("%d calls, %+v, want one of %v", len(calls), calls, work)
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// TestFlightOverflow: a ring that is full says how many datagrams are missing.
func TestFlightOverflow(t *testing.T) {
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.p.record(w.p.client, 1) // 64 at least
	for range 500 {
		w.rpc(t)
	}
	d := w.p.fly(w.p.client)
	if len(d.Entries) != 64 || d.Missed < 900 || len(d.Calls()) < 31 {
		t.Errorf("%d datagrams, %d missing, %d calls", len(d.Entries), d.Missed, len(d.Calls()))
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// TestFlightOfStuckLoop: a loop that nobody runs keeps no asker longer than its context, and
// gathers no commands. Its record is there when it runs again.
func TestFlightOfStuckLoop(t *testing.T) {
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.p.record(w.p.client, 1000)
	w.rpc(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 5000 { // more than the ring of commands holds
		if _, err := w.p.client.Flight(ended); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := w.p.client.Record(ended, 0); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if d := w.p.fly(w.p.client); d == nil || len(d.Calls()) != 1 {
		t.Errorf("the record is %+v", d)
	}
	w.req.Free()
	w.resp.Free()
	client := w.p.client
	w.p.close()
	for range 2 {
		if err := client.Record(context.Background(), 1); !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestNoAllocationsRecorded: a loop that records allocates nothing.
func TestNoAllocationsRecorded(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	w := newStepper(t, erpc.Config{}, 32, 32)
	w.p.record(w.p.client, 1000)
	for range 50 {
		w.rpc(t)
	}
	if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 {
		t.Errorf("%v allocations for one RPC", n)
	}
	w.req.Free()
	w.resp.Free()
	w.p.close()
}

// FuzzFlightRead: no file makes the reader panic.
func FuzzFlightRead(f *testing.F) {
	f.Add([]byte("erpc flight 1\n{\"Entries\":[{\"Size\":-1,\"Data\":\"EDAwMDAw\"}]}"))
	f.Fuzz(func(_ *testing.T, file []byte) {
		dumps, _ := flight.Read(bytes.NewReader(file))
		for _, d := range dumps {
			d.Calls()
		}
	})
}
