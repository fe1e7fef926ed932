package afpacket

import (
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// TestLinks: endpoints err with the link's name while it is down or gone, sleep meanwhile, and work
// again when it is back.
func TestLinks(t *testing.T) {
	rawtest.TestLinks(t, &rawtest.Device{
		Listen: func(t *testing.T, s *vethtest.Side, ip netip.Addr,
			grace time.Duration) transport.Transport {
			return listenOn(t, s, ip, Config{LinkGrace: grace})
		},
		Moved: func(t *testing.T, s *vethtest.Side, c transport.Transport) {
			if on, err := c.(*Conn).Guarded(); !on {
				t.Errorf("no guard on the new link: %v", err)
			}
		},
	})
}
