package rawtest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// Patience is how long a test waits for an event before it fails.
const Patience = 10 * time.Second

// ListenOn opens an endpoint on one side, closed when the test ends.
func ListenOn[C transport.Transport, Config any](tb testing.TB, s *vethtest.Side, ip netip.Addr,
	listen func(string, Config) (C, error), cfg Config) C {
	tb.Helper()
	var c C
	var err error
	s.Do(func() { c, err = listen(netip.AddrPortFrom(ip, 0).String(), cfg) })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// Meet has the kernels of both sides know each other, so that no packet is dropped.
func Meet(tb testing.TB, a, b transport.Transport) {
	tb.Helper()
	for _, x := range [][2]transport.Transport{{a, b}, {b, a}} {
		if _, err := x[0].Resolve(x[1].LocalAddr().String()); err != nil {
			tb.Fatal(err)
		}
	}
}

// Transmit has c take all items.
func Transmit(tb testing.TB, c transport.Transport, items []transport.TxItem) {
	tb.Helper()
	for end := time.Now().Add(Patience); len(items) > 0; {
		n, err := c.TxBurst(items)
		if err != nil {
			tb.Fatal(err)
		}
		items = items[n:]
		if time.Now().After(end) {
			tb.Fatalf("%d items are not taken", len(items))
		}
	}
}

// Receive waits for count packets and returns copies of them. slice is the length given to RxBurst.
func Receive(tb testing.TB, c transport.Transport, count, slice int) []transport.RxPacket {
	tb.Helper()
	var got []transport.RxPacket
	pkts := make([]transport.RxPacket, slice)
	for end := time.Now().Add(Patience); len(got) < count; {
		n, err := c.RxBurst(pkts)
		if err != nil {
			tb.Fatal(err)
		}
		for _, p := range pkts[:n] {
			p.Data = append([]byte(nil), p.Data...)
			got = append(got, p)
		}
		if n > 0 {
			continue
		}
		if err := c.Wait(10 * time.Millisecond); err != nil {
			tb.Fatal(err)
		}
		if time.Now().After(end) {
			tb.Fatalf("%d of %d packets arrived; stats %+v", len(got), count, c.Stats())
		}
	}
	return got
}

// Exchange sends packets from a to b until one arrives: neighbours may have to be found first.
func Exchange(t *testing.T, a, b transport.Transport) {
	t.Helper()
	var pkts [8]transport.RxPacket
	for end := time.Now().Add(Patience); ; {
		n, err := b.RxBurst(pkts[:])
		if n > 0 {
			return
		}
		if err == nil {
			_, err = a.TxBurst([]transport.TxItem{{Dst: b.LocalAddr(), Head: []byte("hello")}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("nothing arrives: %+v, %+v", a.Stats(), b.Stats())
		}
		if err := b.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RxBurst(pkts[:]); err != nil { // it looks after the neighbours
			t.Fatal(err)
		}
		if err := a.Wait(time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}
}
