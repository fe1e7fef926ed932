package afxdp

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
		{"native", false, 1500, Config{Mode: ModeNative}},
		{"generic6", true, 1500, Config{Mode: ModeGeneric, ECN: true}},
		{"generic", false, 9000, Config{Mode: ModeGeneric, Ring: 128, Endpoints: 2}},
		{"native6", true, 9000, Config{}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if testing.Short() && i > 1 {
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
