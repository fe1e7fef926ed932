package conformance

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// offer makes from take all items, without receiving anything. For bursts that
// fit the receiver's ring.
func (r *rig) offer(from transport.Transport, items []transport.TxItem) {
	r.Helper()
	for limit := r.deadline(); len(items) > 0; {
		n, err := from.TxBurst(items)
		if err != nil {
			r.Fatalf("TxBurst: %v", err)
		}
		if n == 0 {
			if time.Now().After(limit) {
				r.Fatalf("TxBurst takes nothing any more")
			}
			r.pause(from, stallWait)
		}
		items = items[n:]
	}
	from.Flush()
}

// collect receives all that f wants.
func (r *rig) collect(from transport.Transport, f *flow) {
	r.Helper()
	for limit := r.deadline(); f.got < len(f.want); {
		if r.receive(from, f) {
			limit = r.deadline()
			continue
		}
		if time.Now().After(limit) {
			r.Fatalf("only %d of %d packets arrived", f.got, len(f.want))
		}
		r.pause(f.to, shortWait)
	}
}

// atLeastOne receives with one RxBurst into pkts, trying until it returns something.
func (r *rig) atLeastOne(t transport.Transport, pkts []transport.RxPacket) int {
	r.Helper()
	for limit := r.deadline(); ; {
		if n := r.poll(t, pkts); n > 0 {
			return n
		}
		if time.Now().After(limit) {
			r.Fatalf("no packet arrived")
		}
		r.pause(t, shortWait)
	}
}

// testAnswer sends packets back to where they came from, straight out of the
// receive buffers.
func testAnswer(r *rig) {
	for round := range 20 {
		specs := burst(r, r.window(1+round), shapes[round%len(shapes)].size, func(int) int { return 0 })
		back := []*flow{{to: r.b}}
		r.offer(r.a, r.build(specs, back))
		expected := back[0].want
		for len(expected) > 0 {
			n := r.atLeastOne(r.b, r.rx)
			if n > len(expected) {
				r.Fatalf("more packets than were sent")
			}
			answers := make([]transport.TxItem, n)
			for i, p := range r.rx[:n] {
				if p.From != r.a.LocalAddr() {
					r.Fatalf("packet is from %v, sent by %v", p.From, r.a.LocalAddr())
				}
				cut := min(len(p.Data), 24)
				answers[i] = transport.TxItem{Dst: p.From, Head: p.Data[:cut], Data: p.Data[cut:]}
			}
			r.offer(r.b, answers)
			r.collect(r.b, &flow{to: r.a, want: append([]want(nil), expected[:n]...)})
			expected = expected[n:]
		}
	}
}

// testViews checks that received packets stay as they are until the next RxBurst,
// whatever else happens, and that writing to them harms nothing.
func testViews(r *rig) {
	for i, shape := range shapes {
		n := max(2, r.window(24))
		specs := burst(r, n/2, shape.size, func(int) int { return 0 })
		first := []*flow{{to: r.b}}
		r.offer(r.a, r.build(specs, first))
		pkts := make([]transport.RxPacket, max(1, len(specs)/(1+i%2))) // some stay behind, or none
		got := pkts[:r.atLeastOne(r.b, pkts)]

		second := []*flow{{to: r.b}}
		r.offer(r.a, r.build(specs, second)) // arrives while the views are held
		r.otherCalls(r.b)
		f := first[0]
		for i := range got {
			r.match(r.a, f, &got[i])
		}
		for i := range got {
			garbage(got[i].Data) // must not show in the packets still to come
		}
		f.want = append(f.want, second[0].want...)
		r.collect(r.a, f)
	}
}

// otherCalls makes every call that must not touch received packets.
func (r *rig) otherCalls(t transport.Transport) {
	r.Helper()
	t.Wake()
	r.wait(t, 0)
	if r.o.advance != nil {
		for range 64 {
			r.o.advance()
		}
	}
	r.send(t, []spec{{head: 24, data: 40}}, &flow{to: r.a})
	t.Flush()
	t.Stats()
	for _, dst := range []transport.Addr{r.a.LocalAddr(), {}} {
		r.path(t, dst)
	}
}

// testViewsPeerClosed holds views while the sender goes away.
func testViewsPeerClosed(r *rig) {
	f := []*flow{{to: r.b}}
	r.offer(r.a, r.build(burst(r, r.window(4), shapes[1].size, func(int) int { return 0 }), f))
	got := r.rx[:r.atLeastOne(r.b, r.rx)]
	from := fixedAddr{r.a, r.a.LocalAddr()}
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	for i := range got {
		r.match(from, f[0], &got[i])
	}
	r.poll(r.b, r.rx) // what was under way may arrive or not
}

// fixedAddr is a transport that is closed, with the address it had.
type fixedAddr struct {
	transport.Transport
	addr transport.Addr
}

func (f fixedAddr) LocalAddr() transport.Addr { return f.addr }

// testEmptyCalls makes calls with nothing to do.
func testEmptyCalls(r *rig) {
	for range 3 {
		for _, items := range [][]transport.TxItem{nil, {}} {
			if n, err := r.a.TxBurst(items); n != 0 || err != nil {
				r.Fatalf("TxBurst of nothing = %d, %v", n, err)
			}
		}
		r.a.Flush()
		r.sendTo(spec{head: 24}, spec{head: 25, data: 10}) // fits any ring
		for _, pkts := range [][]transport.RxPacket{nil, {}} {
			if n, err := r.b.RxBurst(pkts); n != 0 || err != nil {
				r.Fatalf("RxBurst of nothing = %d, %v", n, err)
			}
		}
	}
	f := []*flow{{to: r.b}}
	r.offer(r.a, r.build([]spec{{head: 24}, {head: 24}}, f))
	if n, err := r.b.RxBurst(nil); n != 0 || err != nil { // must lose nothing
		r.Fatalf("RxBurst of nothing = %d, %v", n, err)
	}
	r.collect(r.a, f[0])
	if n := r.poll(r.b, r.rx); n != 0 {
		r.Fatalf("RxBurst on an idle network returned %d packets", n)
	}
	if s := r.a.Stats(); s.TxDropped != 0 {
		r.Errorf("TxDropped = %d, want 0", s.TxDropped)
	}
}

// testDeadDestination sends to an address whose endpoint is gone.
func testDeadDestination(r *rig) {
	live := r.other()
	dead := r.b
	if live != r.a {
		dead, live = live, r.b
	}
	addr := dead.LocalAddr()
	if err := dead.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	for range 10 {
		f := []*flow{{to: live}}
		items := r.build([]spec{{head: 24}, {head: 30, data: 50}, {head: 24}}, f)
		lost := transport.TxItem{Dst: addr, Head: make([]byte, 30)}
		r.offer(r.a, []transport.TxItem{lost, items[0], lost, lost, items[1], items[2], lost})
		r.collect(r.a, f[0])
		r.send(r.a, []spec{{head: 24}}, &flow{to: live})
	}
}
