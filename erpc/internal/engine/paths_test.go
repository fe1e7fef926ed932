package engine

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestPathPlans: sessions whose hosts add the same delay share a plan, whatever else their paths
// have, and others do not. Their congestion control is made once for each delay. Paths within a
// machine have plans of their own: windows allow for hosts there, and small calls wait no longer.
func TestPathPlans(t *testing.T) {
	timing, err := session.Timing{RTOMax: time.Second}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	made := map[time.Duration]*session.Pacing{}
	pacing := func(path *transport.Path) *session.Pacing {
		d := path.HostDelay
		if made[d] != nil {
			t.Errorf("a second congestion control for %v", d)
		}
		made[d] = new(session.Pacing)
		return made[d]
	}
	cfg := Config{Timing: timing, MTU: 1472, Pacing: pacing}
	p := paths{cfg: &cfg}
	plans := map[*pathPlan]time.Duration{}
	delays := []time.Duration{0, time.Microsecond, 100 * time.Microsecond, time.Millisecond}
	for range 2 {
		for i, d := range delays {
			plan := p.plan(&transport.Path{MTU: 1472, HostDelay: d})
			other := p.plan(&transport.Path{
				MTU: 1000 + i, HostDelay: d, Shared: true, Checksummed: true, Private: true,
			})
			if plan != other {
				t.Errorf("two plans for %v", d)
			}
			if was, is := plans[plan]; is && was != d {
				t.Errorf("one plan for %v and %v", was, d)
			}
			plans[plan] = d
		}
	}
	if len(plans) != len(delays) || len(p.plans) != len(delays) {
		t.Errorf("%d plans for %d delays", len(plans), len(delays))
	}
	for plan, d := range plans {
		want := timing
		want.RTOMin = max(want.RTOMin, 20*d)
		if plan.hostDelay != d || plan.timing != want {
			t.Errorf("hosts add %v: timing %+v, want %+v", d, plan.timing, want)
		}
		if plan.pacing == nil || plan.pacing != made[d] {
			t.Errorf("hosts add %v: pacing %p, made for them %p", d, plan.pacing, made[d])
		}
	}
	cfg.Pacing = func(*transport.Path) *session.Pacing { return nil }
	for _, d := range delays {
		plan := p.plan(&transport.Path{HostDelay: d, Local: true})
		if plans[plan] != 0 || plan.pacing != nil || plan.hosts != time.Millisecond ||
			plan.timing.RTOMin != max(timing.RTOMin, 20*d) {
			t.Errorf("hosts add %v, local: plan %+v", d, plan)
		}
	}
}

// TestPathOffers: an offer has the path's MTU, and a checksum where the path or the owner wants
// one.
func TestPathOffers(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		p := paths{cfg: &Config{Checksum: wanted, Slots: 4, Credits: 9, MaxMessage: 5000}}
		for _, checked := range []bool{false, true} {
			o := p.offer(1300, 0, &transport.Path{Checksummed: checked, Alone: true})
			if o.Slots != 4 || o.Credits != 9 || o.MTU != 1300 || o.MaxMessage != 5000 ||
				(o.Features == wire.FeatureChecksum) != (wanted || !checked) {
				t.Errorf("wanted %v, checked %v: offer %+v", wanted, checked, o)
			}
		}
	}
}

// TestPathOfEachPeer: what both handshakes offer follows the path to that peer alone.
func TestPathOfEachPeer(t *testing.T) {
	st := newStub(t, setup{MTU: 1400})
	for _, way := range []transport.Path{
		{MTU: stubMTU, Checksummed: true}, {MTU: stubMTU}, {MTU: 1200, Checksummed: true},
		{MTU: stubMTU, Checksummed: true, Shared: true},
	} {
		st.end.way = way
		mtu := min(1400, way.MTU)
		s := st.dialTo(1)
		o := s.dialer.Connect.Offer
		if int(o.MTU) != mtu || (o.Features&wire.FeatureChecksum != 0) == way.Checksummed {
			t.Errorf("path %+v: offer %+v", way, o)
		}
		if s.plan != st.paths.plan(&way) {
			t.Errorf("path %+v: another plan", way)
		}
		sv := st.connectFrom(2, 7, uint64(len(st.table.byNumber)))
		if sv == nil || sv.Shared != way.Shared || sv.End.Checksum == way.Checksummed ||
			sv.End.PerPacket != 1000 { // the peer's own limit
			t.Errorf("path %+v: server's session %+v", way, sv)
		}
	}
	st.close()
}
