package sim

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
)

// TestConformance runs the suite of all transports over networks of several
// kinds. The clock moves where the suite would block.
func TestConformance(t *testing.T) {
	for name, c := range map[string]Config{
		"perfect": {}, "delay": {PropDelay: 1000}, "cx4": CX4(1),
		"slow": {LinkBitsPerSec: 1e9, PropDelay: 5000, MTU: 9000, RxRing: 64},
	} {
		t.Run(name, func(t *testing.T) {
			var n *Network
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
				n = newNet(tb, c)
				return pairOf(tb, n)
			}, conformance.WithAdvance(func() { n.Step() }),
				conformance.WithThird(func(tb testing.TB) transport.Transport {
					return open(tb, n, EndpointConfig{Name: "c", Node: 2})
				}))
		})
	}
	var n *Network
	decorated.RunStacked(t, func(tb testing.TB) (a, b transport.Transport) {
		n = newNet(tb, Config{})
		return pairOf(tb, n)
	}, conformance.WithAdvance(func() { n.Step() }))
}
