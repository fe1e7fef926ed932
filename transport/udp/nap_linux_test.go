package udp

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestNap: packets do not end a nap, and are there after it; Wake ends it.
func TestNap(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	items := []transport.TxItem{{Dst: b.LocalAddr(), Head: []byte("head"), Data: []byte("data")}}
	if n, err := a.TxBurst(items); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	must(t, b.Wait(time.Minute)) // it has come
	from := time.Now()
	must(t, b.Nap(5*time.Millisecond))
	if d := time.Since(from); d < 5*time.Millisecond {
		t.Errorf("a packet ended the nap after %v", d)
	}
	if n, err := b.RxBurst(make([]transport.RxPacket, 4)); n != 1 || err != nil {
		t.Errorf("%d packets, %v", n, err)
	}
	b.Wake()
	must(t, b.Nap(time.Hour))
}
