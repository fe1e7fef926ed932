package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestDefaultCredits: small packets get more credits at first, as far as the receiving side holds
// them. It offers what it holds, in equal shares if there are many sessions, and never less.
func TestDefaultCredits(t *testing.T) {
	for _, c := range []struct{ set, mtu, ring, others, first, offer int }{
		{0, 8952, 4096, 0, 32, 1024}, {0, 65000, 4096, 3, 32, 1024}, {0, 4096, 4096, 7, 64, 512},
		{0, 1452, 4096, 0, 128, 1024}, {0, 1452, 4096, 100, 128, 128}, {0, 8952, 4096, 100, 32, 40},
		{0, 1452, 256, 0, 64, 64}, {0, 1452, 256, 20, 64, 64}, {0, 1452, 1 << 20, 0, 128, 4096},
		{0, 1452, 0, 0, 32, 32}, {0, 0, 4096, 0, 128, 1024},
		{7, 1452, 4096, 0, 0, 7}, {1000, 8952, 0, 0, 0, 1000},
	} {
		p := paths{cfg: &Config{Credits: c.set, RxRing: c.ring}}
		o := p.offer(c.mtu, c.others, &transport.Path{Checksummed: true})
		if int(o.Credits) != c.offer || int(o.MTU) != c.mtu {
			t.Errorf("%+v: offer %+v", c, o)
		}
		client := session.NewClient(transport.Addr{}, 1, 2, session.Timing{}, 1, nil, nil, nil)
		params := session.Params{Slots: 1, Credits: 2000, PerPacket: c.mtu - wire.HeaderSize}
		p.window(client, &params, 0)
		client.Open(params, 3, 4, 0, 5, session.NewOut(1, false))
		if want := max(c.first, 2000*min(c.set, 1)); client.Window() != want {
			t.Errorf("%+v: a window of %d, want %d", c, client.Window(), want)
		}
	}
}
