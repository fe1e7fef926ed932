package conformance

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
)

// testPath asks for the way to the peer, to oneself and to nowhere. The endpoints have met.
func testPath(r *rig) {
	r.sendTo(spec{head: 24})
	r.send(r.b, []spec{{head: 24}}, &flow{to: r.a})
	testNet := netip.MustParseAddrPort("192.0.2.1:9") // TEST-NET-1 of RFC 5737
	for _, t := range []transport.Transport{r.a, r.b} {
		for _, dst := range []transport.Addr{
			r.a.LocalAddr(), r.b.LocalAddr(), {}, {Port: 1}, transport.AddrFrom(testNet, 0),
		} {
			p := r.path(t, dst)
			if again := r.path(t, dst); again != p {
				r.Errorf("Path(%v) changed from %+v to %+v", dst, p, again)
			}
		}
	}
}

// path asks t for a Path and checks what holds for all. It turns a panic into a failure.
func (r *rig) path(t transport.Transport, dst transport.Addr) (p transport.Path) {
	r.Helper()
	defer func() {
		if x := recover(); x != nil {
			r.Fatalf("Path(%v) panicked: %v", dst, x)
		}
	}()
	p = t.Path(dst)
	if limit := t.Caps().MTU; p.MTU < 1 || p.MTU > limit {
		r.Errorf("Path(%v) has MTU %d, want 1 to Caps.MTU, %d", dst, p.MTU, limit)
	}
	if p.HostDelay < 0 {
		r.Errorf("Path(%v) has HostDelay %v", dst, p.HostDelay)
	}
	if private := t.IsPrivate(dst); private != p.Private {
		r.Errorf("IsPrivate(%v) is %v, and Path says %v", dst, private, p.Private)
	}
	return p
}

// testPathMTU sends packets as large as Path says, both ways, alone and as a burst. Path says no
// less than what both ends take: the network of the suite carries that.
func testPathMTU(r *rig) {
	for _, pair := range [][2]transport.Transport{{r.a, r.b}, {r.b, r.a}} {
		from, to := pair[0], pair[1]
		r.send(from, []spec{{head: 24}}, &flow{to: to}) // from now on they know each other
		mtu := r.path(from, to.LocalAddr()).MTU
		if mtu < r.mtu() {
			r.Errorf("Path(%v) has MTU %d, but packets of %d bytes arrive",
				to.LocalAddr(), mtu, r.mtu())
		}
		mtu = min(mtu, to.Caps().MTU)
		full := spec{head: min(24, mtu), data: mtu - min(24, mtu)}
		r.send(from, []spec{full}, &flow{to: to})
		specs := make([]spec, r.window(8))
		for i := range specs {
			specs[i] = full
		}
		r.send(from, specs, &flow{to: to})
	}
}
