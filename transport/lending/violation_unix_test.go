//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lending

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/transport"
)

// TestUnmapped: a large buffer is freed and its memory given back to the system. Its
// packets are not sent; their neighbours are.
func TestUnmapped(t *testing.T) {
	const perPacket = 1000
	pool, err := msgbuf.NewPool(msgbuf.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{Delay: 10})
	buf, err := pool.Alloc(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf.Data(), strings.Repeat("large", 1000))
	r.send(1, 1)
	for i := range 2 {
		head, data := buf.Packet(i, perPacket)
		r.TxBurst([]transport.TxItem{{Dst: addr(9), Head: head, Data: data}})
	}
	buf.Free()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	last := transport.TxItem{Dst: addr(1), Head: makeContent(1)}
	r.TxBurst([]transport.TxItem{last})
	r.clock.advance(10)
	if len(r.bad) != 2 {
		t.Fatalf("violations %v", r.bad)
	}
	for i, v := range r.bad {
		if !v.Gone { // somebody else has the memory by now
			t.Skipf("packet %d: %v", i, v)
		}
		named := strings.Contains(v.String(), "gone")
		if v.Size != perPacket+24 || v.Dst != addr(9) || v.Offset() != 0 || !named {
			t.Errorf("packet %d: %v", i, v)
		}
	}
	r.next = 2
	r.left(2)
	if n := r.Stats().TxDropped; n != 2 {
		t.Errorf("%d packets dropped", n)
	}
}
