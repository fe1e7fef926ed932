package afxdp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
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
			if n := programs(t, s); n != 1 {
				t.Errorf("%d programs on the new link", n)
			}
		},
	})
}

// TestSharedLinkDeleted: when a link comes back all endpoints that shared it move to the new one,
// and share it.
func TestSharedLinkDeleted(t *testing.T) {
	p := vethtest.New(t, 1500)
	cfg := Config{Endpoints: 2, Ring: 64}
	a := []*Conn{listenOn(t, p.A, p.A.IP4, cfg), listenOn(t, p.A, p.A.IP6, cfg)}
	b := []*Conn{listenOn(t, p.B, p.B.IP4, cfg), listenOn(t, p.B, p.B.IP6, cfg)}
	for range 3 {
		for i := range a {
			rawtest.Exchange(t, a[i], b[i])
			rawtest.Exchange(t, b[i], a[i])
		}
		p.A.Delete()
		for i := range a {
			rawtest.UntilErr(t, a[i], p.A.Name, rawudp.ErrLinkGone)
			rawtest.UntilErr(t, b[i], p.B.Name, rawudp.ErrLinkGone)
		}
		if err := p.Join(); err != nil {
			t.Fatal(err)
		}
		for i := range a {
			p.A.Do(func() { rawtest.UntilWorks(t, a[i]) })
			p.B.Do(func() { rawtest.UntilWorks(t, b[i]) })
		}
		if a[0].dev.hub != a[1].dev.hub || a[0].dev.members != 2 {
			t.Errorf("not shared any more: %d members", a[0].dev.members)
		}
	}
	hubs.Lock()
	defer hubs.Unlock()
	if n := len(hubs.at); n != 2 {
		t.Errorf("%d hubs", n)
	}
}
