package sim

import (
	"encoding/binary"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

func newNet(tb testing.TB, c Config) *Network {
	tb.Helper()
	n, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func open(tb testing.TB, n *Network, c EndpointConfig) *Endpoint {
	tb.Helper()
	e, err := n.NewEndpoint(c)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// pair opens endpoints on nodes 0 and 1.
func pairOf(tb testing.TB, n *Network) (a, b *Endpoint) {
	tb.Helper()
	return open(tb, n, EndpointConfig{Name: "a", Node: 0}),
		open(tb, n, EndpointConfig{Name: "b", Node: 1})
}

// send sends count packets of size bytes, numbered from first.
func send(tb testing.TB, from *Endpoint, to transport.Addr, first, count, size int) {
	tb.Helper()
	buf := make([]byte, max(size, 4))
	for i := range count {
		binary.LittleEndian.PutUint32(buf, uint32(first+i))
		got, err := from.TxBurst([]transport.TxItem{{Dst: to, Head: buf[:4], Data: buf[4:]}})
		if got != 1 || err != nil {
			tb.Fatalf("TxBurst: %d, %v", got, err)
		}
	}
}

// number is the number of a packet made by send.
func number(p []byte) int { return int(binary.LittleEndian.Uint32(p)) }

// receive empties the ring of e into f.
func receive(tb testing.TB, e *Endpoint, f func(p *transport.RxPacket)) int {
	tb.Helper()
	var pkts [32]transport.RxPacket
	total := 0
	for {
		n, err := e.RxBurst(pkts[:])
		if err != nil {
			tb.Fatal(err)
		}
		if n == 0 {
			return total
		}
		total += n
		for i := range n {
			if f != nil {
				f(&pkts[i])
			}
		}
	}
}

// drainer is a driver that receives all, gives each packet to f with its time,
// and never wants to run by itself.
type drainer struct {
	tb   testing.TB
	e    *Endpoint
	f    func(now Time, p *transport.RxPacket)
	runs []Time
	log  bool
	wake Time
	pkts [32]transport.RxPacket
}

func (d *drainer) RunOnce() {
	if d.log {
		d.runs = append(d.runs, d.e.net.Now())
	}
	n, err := d.e.RxBurst(d.pkts[:])
	if err != nil {
		d.tb.Fatal(err)
	}
	for i := range n {
		d.f(d.e.net.Now(), &d.pkts[i])
	}
}

func (d *drainer) NextWake() Time {
	if d.wake == 0 {
		return Never
	}
	return d.wake
}

func attach(tb testing.TB, e *Endpoint, f func(now Time, p *transport.RxPacket)) *drainer {
	d := &drainer{tb: tb, e: e, f: f}
	if f == nil {
		d.f = func(Time, *transport.RxPacket) {}
	}
	e.net.Attach(e, d)
	return d
}

func hostPort(tb testing.TB, n *Network, node int) PortStats {
	tb.Helper()
	s, err := n.HostPort(node)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func want[T comparable](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s: got %v, want %v", what, got, want)
	}
}
