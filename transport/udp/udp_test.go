package udp

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// variants are the ways to open a socket that most tests go through.
var variants = []struct {
	name string
	addr string
	cfg  Config
}{
	{"v4", "127.0.0.1:0", Config{}},
	{"v6", "[::1]:0", Config{}},
	{"NoGSO", "127.0.0.1:0", Config{NoGSO: true}},
	{"NoGRO", "[::1]:0", Config{NoGRO: true}},
	{"plain", "127.0.0.1:0", Config{NoGSO: true, NoGRO: true}},
	{"portable4", "127.0.0.1:0", Config{Portable: true}},
	{"portable6", "[::1]:0", Config{Portable: true}},
}

// listen opens a socket that is closed with the test.
func listen(tb testing.TB, addr string, cfg Config) *Conn {
	tb.Helper()
	c, err := Listen(addr, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// receive returns the next want packets that c gets, each copied.
func receive(tb testing.TB, c *Conn, want, burst int) []transport.RxPacket {
	tb.Helper()
	var all []transport.RxPacket
	pkts := make([]transport.RxPacket, burst)
	for len(all) < want {
		n, err := c.RxBurst(pkts)
		if err != nil {
			tb.Fatal(err)
		}
		for _, p := range pkts[:n] {
			p.Data = append([]byte(nil), p.Data...)
			all = append(all, p)
		}
		if n == 0 {
			if err := c.Wait(-1); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return all
}

// transmit sends all of items.
func transmit(tb testing.TB, c *Conn, items []transport.TxItem) {
	tb.Helper()
	for len(items) > 0 {
		n, err := c.TxBurst(items)
		if err != nil {
			tb.Fatal(err)
		}
		items = items[n:]
	}
}
