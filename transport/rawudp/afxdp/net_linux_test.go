package afxdp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// patience is how long a test waits for an event before it fails.
const patience = 10 * time.Second

// listenOn opens an endpoint on one side, closed when the test ends.
func listenOn(tb testing.TB, s *vethtest.Side, ip netip.Addr, cfg Config) *Conn {
	tb.Helper()
	var c *Conn
	var err error
	s.Do(func() { c, err = Listen(netip.AddrPortFrom(ip, 0).String(), cfg) })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// transmit has c take all items.
func transmit(tb testing.TB, c transport.Transport, items []transport.TxItem) {
	tb.Helper()
	for end := time.Now().Add(patience); len(items) > 0; {
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

// receive waits for count packets and returns copies of them. slice is the length given to RxBurst.
func receive(tb testing.TB, c transport.Transport, count, slice int) []transport.RxPacket {
	tb.Helper()
	var got []transport.RxPacket
	pkts := make([]transport.RxPacket, slice)
	for end := time.Now().Add(patience); len(got) < count; {
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
