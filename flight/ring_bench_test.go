package flight_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// BenchmarkAdd measures the cost of recording a datagram: a packet of 32 B of data, and a bundle of
// as many as fit into 1400 B, some 24.
func BenchmarkAdd(b *testing.B) {
	single := make([]byte, wire.HeaderSize+32)
	bundle := make([]byte, 1400)
	bundle[0] = byte(wire.TypeBundle) | wire.Version<<4
	for name, data := range map[string][]byte{"packet": single, "bundle": bundle} {
		b.Run(name, func(b *testing.B) {
			if wire.IsBundle(data) != (name == "bundle") {
				b.Fatal("the data is wrong")
			}
			r, peer := flight.NewRing(65536), packet.Addr{Port: 1}
			for b.Loop() {
				r.Add(flight.Sent, 1, &peer, data, nil)
			}
		})
	}
}
