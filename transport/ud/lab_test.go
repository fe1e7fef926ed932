//go:build linux

package ud

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// patience is how long a test waits for an event before it fails.
const patience = 20 * time.Second

// Addresses of the two devices of scripts/rdma-lab.
const (
	hostA = "10.9.0.1:0"
	hostB = "10.9.0.2:0"
)

// needLab skips the test unless there are the devices of scripts/rdma-lab.
func needLab(t testing.TB) {
	t.Helper()
	names, err := verbs.Devices()
	if slices.Contains(names, "rxe0") && slices.Contains(names, "rxe1") {
		return
	}
	if os.Getenv("RDMA_LAB") != "" {
		t.Fatalf("devices %v, %v, and this is the lab", names, err)
	}
	t.Skipf("no devices rxe0 and rxe1 (%v): see scripts/rdma-lab", err)
}

// listenAt opens an endpoint, closed when the test ends.
func listenAt(t testing.TB, addr string, cfg Config) *Conn {
	t.Helper()
	needLab(t)
	c, err := Listen(addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// introduce has c resolve all of others.
func introduce(t testing.TB, c *Conn, others ...transport.Transport) {
	t.Helper()
	for _, o := range others {
		if a, err := c.Resolve(o.LocalAddr().String()); err != nil || a != o.LocalAddr() {
			t.Fatalf("Resolve(%v) = %v, %v", o.LocalAddr(), a, err)
		}
	}
}

// pairOf opens an endpoint on each device; they have met.
func pairOf(t testing.TB, cfg Config) (a, b *Conn) {
	t.Helper()
	a, b = listenAt(t, hostA, cfg), listenAt(t, hostB, cfg)
	introduce(t, a, b)
	return a, b
}

// transmit has c take all items.
func transmit(t testing.TB, c transport.Transport, items ...transport.TxItem) {
	t.Helper()
	for end := time.Now().Add(patience); len(items) > 0; {
		n, err := c.TxBurst(items)
		if err != nil {
			t.Fatal(err)
		}
		items = items[n:]
		if time.Now().After(end) {
			t.Fatalf("%d items are not taken", len(items))
		}
	}
}

// receive waits for count packets and returns copies of them.
func receive(t testing.TB, c transport.Transport, count int) []transport.RxPacket {
	t.Helper()
	var got []transport.RxPacket
	pkts := make([]transport.RxPacket, 32)
	for end := time.Now().Add(patience); len(got) < count; {
		n, err := c.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pkts[:n] {
			p.Data = append([]byte(nil), p.Data...)
			got = append(got, p)
		}
		if n > 0 {
			continue
		}
		if err := c.Wait(10 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d packets arrived; stats %+v", len(got), count, c.Stats())
		}
	}
	return got
}
