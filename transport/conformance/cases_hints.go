package conformance

import (
	"bytes"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/transport"
)

// testHints: there are none about peers that live, and none after Close.
func testHints(r *rig) {
	r.sendTo(spec{head: 24})
	r.send(r.b, []spec{{head: 24}}, &flow{to: r.a})
	for room := range 4 {
		if n := r.a.Hints(make([]transport.Hint, room)); n != 0 {
			r.Errorf("Hints into %d places gave %d about peers that live", room, n)
		}
	}
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	if n := r.a.Hints(make([]transport.Hint, 4)); n != 0 {
		r.Errorf("Hints after Close gave %d", n)
	}
}

// testHintOfEnd: packets to a peer that has gone bring the hint of WithHint.
func testHintOfEnd(r *rig) {
	if r.o.hint == 0 {
		r.Skip("the transport does not hear of the end of peers")
	}
	r.sendTo(spec{head: 24})
	to := r.b.LocalAddr()
	if err := r.b.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	packet := []byte("whoever is there, hear this: ")
	hints := make([]transport.Hint, 2)
	for limit := r.deadline(); ; {
		r.offer(r.a, []transport.TxItem{{Dst: to, Head: packet}})
		r.poll(r.a, r.rx)
		n := r.a.Hints(hints)
		if n < 0 || n > len(hints) {
			r.Fatalf("Hints into %d places gave %d", len(hints), n)
		}
		for _, h := range hints[:n] {
			if h.Kind != r.o.hint || h.To != to {
				r.Errorf("a hint of kind %d to %v, want %d to %v", h.Kind, h.To, r.o.hint, to)
			}
			if quote := min(len(h.Quoted), len(packet)); !bytes.Equal(h.Quoted[:quote], packet[:quote]) {
				r.Errorf("a hint quotes %s", brief(h.Quoted))
			}
		}
		if n > 0 {
			return
		}
		if time.Now().After(limit) {
			r.Fatalf("no hint came of the end of %v", to)
		}
		r.pause(r.a, shortWait)
	}
}

// testMemory: packets leave out of memory that was announced, and out of other memory.
func testMemory(r *rig) {
	mem, err := hugemem.AllocPlain(1 << 18)
	if err != nil {
		r.Skipf("no memory off the heap: %v", err)
	}
	r.Cleanup(func() { _ = hugemem.Free(mem) }) // before the endpoints close: they have let it go
	key, err := r.a.Register(mem)
	if err != nil {
		r.Fatalf("Register: %v", err)
	}
	n := r.window(32)
	for _, announced := range []bool{true, false} {
		r.tx = nil
		if announced {
			r.tx = mem
		}
		for _, shape := range shapes[:4] {
			r.send(r.a, burst(r, n, shape.size, func(int) int { return 0 }), &flow{to: r.b})
		}
	}
	r.a.Unregister(mem, key)
	r.sendTo(spec{head: 24, data: 40})
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	key, _ = r.a.Register(mem)
	r.a.Unregister(mem, key)
}
