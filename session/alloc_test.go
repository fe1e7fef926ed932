package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// exchange runs one request through both halves as an event loop does: parse, check
// the token, take the packet. Nothing is copied between the halves, but a response
// of several packets is read from where it was written.
func exchange(r *rig, op Op, respSize int) {
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		r.tb.Fatal(err)
	}
	var h wire.Header
	for len(r.cout.Tx) > 0 {
		for i := range r.cout.Tx {
			head, data := r.cout.Tx[i].Head, r.cout.Tx[i].Data
			toServerRaw(r, &h, head, data, respSize)
		}
		r.cout.Reset()
		for i := range r.sout.Tx {
			head, data := r.sout.Tx[i].Head, r.sout.Tx[i].Data
			parse(r.tb, &h, head, data)
			payload := data
			if data == nil {
				payload = head[wire.HeaderSize:]
			}
			in := Arrival{Now: r.now}
			if h.Type == wire.TypeCR {
				r.cl.OnCR(&h, nil, &in, r.cout)
			} else {
				r.cl.OnResp(&h, payload, &in, r.cout)
			}
			for ev := r.cout.Next(); ev != nil; ev = r.cout.Next() {
				if ev.Kind != EventProgress && ev.Kind != EventDone {
					r.tb.Fatalf("event %+v", ev)
				}
			}
		}
		r.cout.Feed(r.now)
		r.sout.Reset()
		r.now += 1000
	}
	if r.cl.busy != 0 {
		r.tb.Fatal("not done")
	}
}

// parse reads a header that stands apart from its data: it parses the head alone,
// with the rule about sizes satisfied by leaving data out.
func parse(tb testing.TB, h *wire.Header, head, _ []byte) {
	if err := h.Parse(head); err != nil {
		tb.Fatal(err)
	}
	if wire.Token(head) == 0 {
		tb.Fatal("no token")
	}
}

func toServerRaw(r *rig, h *wire.Header, head, data []byte, respSize int) {
	parse(r.tb, h, head, data)
	payload := data
	if data == nil {
		payload = head[wire.HeaderSize:]
	}
	in := Arrival{Now: r.now}
	if h.Type == wire.TypeRFR {
		r.sv.OnRFR(h, &in, r.sout)
	} else {
		r.sv.OnReq(h, payload, &in, r.sout)
	}
	for ev := r.sout.Next(); ev != nil; ev = r.sout.Next() {
		if ev.Kind != EventRequest {
			r.tb.Fatalf("event %+v", ev)
		}
		answer(r, ev.Slot, respSize)
	}
}

// answer responds as a handler does that runs at once.
func answer(r *rig, slot uint8, respSize int) {
	buf := r.sv.Prealloc(slot, respSize, r.sout)
	if buf == nil {
		var err error
		if buf, err = r.pool.Alloc(respSize); err != nil {
			r.tb.Fatal(err)
		}
	}
	if err := r.sv.Respond(slot, buf, r.now, r.sout); err != nil {
		r.tb.Fatal(err)
	}
}

var shapes = []struct {
	name      string
	req, resp int
	packets   int64
}{{"small", 32, 32, 2}, {"largeRequest", 1 << 20, 32, 2 * 1049},
	{"largeResponse", 32, 1 << 20, 2 * 1049}}

func TestNoAllocation(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariant builds renew freed buffers")
	}
	for _, s := range shapes {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, s.req, s.resp)
		for range 2 * r.params.Slots { // preallocated buffers, send times
			exchange(r, op, s.resp)
		}
		runs := 100
		if s.packets > 2 {
			runs = 3
		}
		if n := testing.AllocsPerRun(runs, func() { exchange(r, op, s.resp) }); n != 0 {
			t.Errorf("%s: %v allocations per request", s.name, n)
		}
		giveBack(op)
		r.noLeak()
	}
}

// BenchmarkExchange measures client and server half together, without a network.
func BenchmarkExchange(b *testing.B) {
	for _, s := range shapes {
		for _, sum := range []bool{false, true} {
			name := s.name
			if sum {
				name += "/checksum"
			}
			b.Run(name, func(b *testing.B) {
				p := rigParams
				p.Checksum = sum
				r := newRig(b, p, Timing{}, 0, msgbuf.Config{})
				r.open(0)
				op := r.op(1, s.req, s.resp)
				b.ReportAllocs()
				for b.Loop() {
					exchange(r, op, s.resp)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(int64(b.N)*s.packets), "ns/packet")
				giveBack(op)
				r.noLeak()
			})
		}
	}
}
