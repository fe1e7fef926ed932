package udp

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// TestWaited: the socket has no stamps before somebody asks for how long packets have waited. From
// then on that is known of the first packet of each burst, also of one that begins within a train,
// and of no burst that brought nothing.
func TestWaited(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	dst, err := a.Resolve("127.0.0.1:" + portText(b))
	if err != nil {
		t.Fatal(err)
	}
	// send sends a train and takes it in bursts of two packets. Each time it says how long they have
	// waited.
	send := func(waited func(d, most time.Duration)) {
		begin := monotime.Wall().Round(0) // the real-time clock
		items := make([]transport.TxItem, 6)
		for i := range items {
			items[i] = transport.TxItem{Dst: dst, Head: make([]byte, 100)}
		}
		transmit(t, a, items)
		for range 3 {
			receive(t, b, 2, 2)
			d := b.Waited()
			waited(d, monotime.Wall().Round(0).Sub(begin))
		}
	}
	asked := false
	send(func(d, _ time.Duration) {
		if d != 0 && !asked {
			t.Errorf("waited for %v before there were stamps", d)
		}
		asked = true
	})
	for range 20 {
		send(func(d, most time.Duration) {
			if d <= 0 || d > most {
				t.Errorf("waited for %v of %v", d, most)
			}
		})
	}
	if n, err := b.RxBurst(make([]transport.RxPacket, 2)); n != 0 || err != nil || b.Waited() != 0 {
		t.Errorf("%d packets, %v, waited for %v", n, err, b.Waited())
	}
}
