package afpacket

import (
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/conformance/decorated"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

func TestConformance(t *testing.T) {
	for i, v := range []struct {
		name string
		v6   bool
		mtu  int // of the link
		cfg  Config
	}{
		{"ip4", false, 1500, Config{}},
		{"ip6", true, 1500, Config{ECN: true}},
		{"no offload", false, 1500, Config{NoOffload: true}},
		{"jumbo", false, 9000, Config{}},
		{"no trains", false, 1500, Config{NoTrains: true}},
		{"no offload ip6", true, 9000, Config{NoOffload: true, Guard: GuardOff}},
		{"bypass", false, 1500, Config{BypassQdisc: true}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if testing.Short() && i > 2 {
				t.Skip("short")
			}
			var p *vethtest.Pair
			ip := func(s *vethtest.Side) netip.Addr {
				if v.v6 {
					return s.IP6
				}
				return s.IP4
			}
			open := func(tb testing.TB) (a, b transport.Transport) {
				p = vethtest.New(tb, v.mtu)
				ca, cb := listenOn(tb, p.A, ip(p.A), v.cfg), listenOn(tb, p.B, ip(p.B), v.cfg)
				rawtest.Meet(tb, ca, cb)
				return ca, cb
			}
			third := func(tb testing.TB) transport.Transport { return listenOn(tb, p.B, ip(p.B), v.cfg) }
			conformance.Run(t, open, conformance.WithThird(third), conformance.WithoutSelf())
			if i == 0 {
				decorated.RunStacked(t, open, conformance.WithoutSelf())
			}
		})
	}
}
