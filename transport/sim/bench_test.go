package sim

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// benchmark echoes packets of 32 B between nodes, flight of them at a time a
// node, until b.N were received. One operation is one packet from end to end.
func benchmark(b *testing.B, c Config, nodes, flight, size int) {
	n := newNet(b, c)
	eps := make([]*Endpoint, nodes)
	got := 0
	for i := range eps {
		e := open(b, n, EndpointConfig{Node: i})
		eps[i] = e
		d := &echoer{e: e, got: &got}
		n.Attach(e, d)
	}
	for i, e := range eps {
		for k := range flight {
			send(b, e, eps[(i+1+k%(nodes-1))%nodes].LocalAddr(), 0, 1, size)
		}
	}
	n.RunWhile(func() bool { return got < 50000 }, Never)
	b.ReportAllocs()
	events := n.Stats().Events
	b.ResetTimer()
	got = 0
	n.RunWhile(func() bool { return got < b.N }, Never)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	b.ReportMetric(float64(n.Stats().Events-events)/float64(b.N), "events/packet")
}

// echoer returns every packet in bursts.
type echoer struct {
	e     *Endpoint
	got   *int
	pkts  [32]transport.RxPacket
	items [32]transport.TxItem
}

func (d *echoer) RunOnce() {
	k, _ := d.e.RxBurst(d.pkts[:])
	for i := range k {
		d.items[i] = transport.TxItem{Dst: d.pkts[i].From, Head: d.pkts[i].Data}
	}
	_, _ = d.e.TxBurst(d.items[:k])
	*d.got += k
}

func (d *echoer) NextWake() Time { return Never }

func BenchmarkPair(b *testing.B)        { benchmark(b, Config{PropDelay: 1000}, 2, 60, 56) }
func BenchmarkSwitch10(b *testing.B)    { c := CX4(1); c.Racks = 1; benchmark(b, c, 10, 60, 56) }
func BenchmarkCX4x100(b *testing.B)     { benchmark(b, CX4(1), 100, 60, 56) }
func BenchmarkCX4x100Deep(b *testing.B) { benchmark(b, CX4(1), 100, 2000, 56) }
func BenchmarkCX41KB(b *testing.B)      { benchmark(b, CX4(1), 100, 60, 1024) }
func BenchmarkFaults(b *testing.B) {
	f := Faults{Duplicate: .01, Corrupt: .01, Reorder: .01, ReorderDelay: 9000, Jitter: 500, Loss: .01}
	benchmark(b, Config{PropDelay: 1000, Faults: f}, 2, 60, 56)
}

// BenchmarkSeeds is one seed of a test run: a new network and some thousand packets.
func BenchmarkSeeds(b *testing.B) {
	for i := range b.N {
		storm(b, uint64(i), nil)
	}
}
