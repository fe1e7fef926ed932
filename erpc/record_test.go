package erpc_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// fly takes the record of r while both ends are stepped.
func (p *memPair) fly(r *erpc.Rpc) *flight.Dump {
	got := make(chan *flight.Dump)
	go func() {
		d, err := r.Flight(context.Background())
		if err != nil {
			p.tb.Error(err)
		}
		got <- d
	}()
	for {
		select {
		case d := <-got:
			return d
		default:
			p.step()
		}
	}
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
			if err := r.Record(1000); err != nil {
				t.Fatal(err)
			}
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

// TestFlightOverflow: a ring that is full says how many datagrams are missing.
func TestFlightOverflow(t *testing.T) {
	w := newStepper(t, erpc.Config{}, 32, 32)
	if err := w.p.client.Record(1); err != nil { // 64 at least
		t.Fatal(err)
	}
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

// TestNoAllocationsRecorded: a loop that records allocates nothing.
func TestNoAllocationsRecorded(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	w := newStepper(t, erpc.Config{}, 32, 32)
	if err := w.p.client.Record(1000); err != nil {
		t.Fatal(err)
	}
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
