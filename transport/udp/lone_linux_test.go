package udp

import (
	"golang.org/x/sys/unix"

	"os"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// TestLone: packets that come alone switch to reading without trains, a burst switches
// back, and in both ways and in between every packet keeps its bounds.
func TestLone(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	dst, err := a.Resolve("127.0.0.1:" + portText(b))
	if err != nil {
		t.Fatal(err)
	}
	r := &b.impl.(*kernelConn).rx
	if !r.mayLone {
		if os.Getenv("CI") == "true" {
			t.Fatal("this kernel has no GRO")
		}
		t.Skip("this kernel has no GRO")
	}
	idle := func() { // polls that find nothing
		for range 2 * settle {
			if n, err := b.RxBurst(make([]transport.RxPacket, 8)); n != 0 || err != nil {
				t.Fatalf("%d packets, %v", n, err)
			}
		}
	}
	send := func(count, size int) {
		items := make([]transport.TxItem, count)
		for i := range items {
			items[i] = transport.TxItem{Dst: dst, Head: make([]byte, size)}
			items[i].Head[0] = byte(i)
		}
		transmit(t, a, items)
		for i, p := range receive(t, b, count, 8) {
			if len(p.Data) != size || p.Data[0] != byte(i) || p.From != a.LocalAddr() {
				t.Fatalf("packet %d: %d bytes of %d, number %d, from %v", i, len(p.Data), size,
					p.Data[0], p.From)
			}
		}
	}
	for round := range 3 {
		for i := 0; r.mode != rxLone; i++ {
			if i > 4*loneAfter {
				t.Fatalf("round %d: mode %d after %d lone packets", round, r.mode, i)
			}
			send(1, 40+i%5)
			idle()
		}
		send(1, 0x200)
		idle()
		if r.mode != rxLone {
			t.Fatalf("round %d: mode %d after one more", round, r.mode)
		}
		if on, err := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW); on != 0 ||
			err != nil || r.wanted {
			t.Fatalf("round %d: stamps that nobody reads: %d, %v", round, on, err)
		}
		send(40, 56)
		if r.mode != rxTrains {
			t.Fatalf("round %d: mode %d after a burst", round, r.mode)
		}
		send(40, 1000)
		if _ = b.Waited(); !r.wanted {
			t.Fatalf("round %d: no stamps", round)
		}
	}
}

// TestLonely: a packet that leaves alone takes one call, and one that is larger than the MTU takes
// none and is dropped.
func TestLonely(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{MTU: 1500}), listen(t, "127.0.0.1:0", Config{})
	dst, err := a.Resolve("127.0.0.1:" + portText(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1500, 1501} {
		n, err := a.TxBurst([]transport.TxItem{{Dst: dst, Head: make([]byte, size)}})
		if n != 1 || err != nil {
			t.Fatalf("%d bytes: %d taken, %v", size, n, err)
		}
	}
	receive(t, b, 1, 8)
	if s := a.Stats(); s.TxPackets != 1 || s.TxBytes != 1500 || s.TxCalls != 1 || s.TxDropped != 1 {
		t.Errorf("%+v", s)
	}
}
