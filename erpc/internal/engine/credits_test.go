package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// TestDefaultCredits: small packets get more credits, as far as the receiving side holds them.
func TestDefaultCredits(t *testing.T) {
	for _, c := range []struct{ set, mtu, ring, want int }{
		{0, 8952, 4096, 32}, {0, 65000, 4096, 32}, {0, 4096, 4096, 64}, {0, 1452, 4096, 128},
		{0, 1452, 256, 64},
		{0, 1452, 0, 32}, {0, 0, 4096, 128}, {7, 1452, 4096, 7}, {1000, 8952, 0, 1000},
	} {
		p := paths{cfg: &Config{Credits: c.set, RxRing: c.ring}}
		if got := p.credits(c.mtu); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
		if o := p.offer(c.mtu, &transport.Path{Checksummed: true}); int(o.Credits) != c.want ||
			int(o.MTU) != c.mtu {
			t.Errorf("%+v: offer %+v", c, o)
		}
	}
}
