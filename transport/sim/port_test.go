package sim

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// N packets of size S over a link of rate R take exactly N*S*8/R, also where one
// packet's time is no whole number of nanoseconds.
func TestBandwidth(t *testing.T) {
	for _, c := range []struct {
		rate        int64
		size, count int
	}{{1e9, 1000, 500}, {25e9, 92, 2500}, {25e9, 1090, 5000}, {100e9, 101, 10000}, {3e9, 1000, 3000}} {
		for _, cut := range []bool{false, true} {
			n := newNet(t, Config{LinkBitsPerSec: c.rate, CutThrough: cut})
			a, b := pairOf(t, n)
			var last Time
			got := 0
			attach(t, b, func(now Time, _ *transport.RxPacket) { last = now; got++ })
			start := n.Now()
			send(t, a, b.LocalAddr(), 0, c.count, c.size)
			for n.Step() {
			}
			one := time.Duration(int64(c.size) * 8 * 1e9 / c.rate)
			ideal := time.Duration(int64(c.size) * int64(c.count) * 8 * 1e9 / c.rate)
			if !cut { // stored in the switch once more
				ideal += one
			}
			// Store and forward rounds the arrival at the switch down to 1 ns.
			took := last.Sub(start)
			late := took - ideal
			if got != c.count || late < -1 || late > 1 || cut && late != 0 {
				t.Errorf("%+v, cut-through %v: %d packets in %v, want %v", c, cut, got, took, ideal)
			}
		}
	}
}

// Two senders to one receiver share its link; a rate can change at run time.
func TestSharedLink(t *testing.T) {
	n := newNet(t, Config{LinkBitsPerSec: 8e9})
	a, b := pairOf(t, n)
	c := open(t, n, EndpointConfig{Node: 2})
	var last Time
	attach(t, b, func(now Time, _ *transport.RxPacket) { last = now })
	send(t, a, b.LocalAddr(), 0, 100, 1000)
	send(t, c, b.LocalAddr(), 0, 100, 1000)
	for n.Step() {
	}
	want(t, "end", last, StartTime+1000+200*1000)
	must(t, n.SetLinkBits(1, 1e9))
	start := n.Now()
	send(t, a, b.LocalAddr(), 0, 10, 1000)
	for n.Step() {
	}
	want(t, "end over the slow link", last, start+1000+10*8000)
	must(t, n.SetLinkBits(1, 0))
	start = n.Now()
	send(t, a, b.LocalAddr(), 0, 10, 1000)
	for n.Step() {
	}
	want(t, "end over the infinitely fast link", last, start+10*1000)
}

// burst sends count packets of 1000 bytes from each of the nodes after node 0 to
// node 0, whose link is ten times slower, and returns the network afterwards.
func burst(t *testing.T, c Config, senders, count int) *Network {
	t.Helper()
	c.LinkBitsPerSec = 80e9 // 100 ns a packet
	n := newNet(t, c)
	to := open(t, n, EndpointConfig{Node: 0})
	must(t, n.SetLinkBits(0, 8e9)) // 1000 ns a packet
	for i := range senders {
		send(t, open(t, n, EndpointConfig{Node: i + 1}), to.LocalAddr(), 0, count, 1000)
	}
	return n
}

// Packets come every 100 ns and leave every 1000 ns. Ten fit; the one that finds
// exactly its size free is taken, one byte less and it is dropped.
func TestTailDropAtTheByte(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    Config
		admits uint64
	}{
		{"port, exact", Config{PortBuffer: 3000}, 3},
		{"port, one byte short", Config{PortBuffer: 2999}, 2},
		{"shared, exact", Config{SwitchBuffer: 3000}, 3},
		{"shared, one byte short", Config{SwitchBuffer: 2999}, 2},
		// alpha 1: depth+1000 <= free, so a third needs a buffer of 5000
		{"alpha 1, exact", Config{SwitchBuffer: 5000, Alpha: 1}, 3},
		{"alpha 1, one byte short", Config{SwitchBuffer: 4999, Alpha: 1}, 2},
		// alpha 8: 3000 <= 8*(B-2000)
		{"alpha 8, exact", Config{SwitchBuffer: 2375, Alpha: 8}, 2},
		{"alpha 8, exact", Config{SwitchBuffer: 3000, Alpha: 8}, 3},
		{"alpha 1/2, exact", Config{SwitchBuffer: 8000, Alpha: .5}, 3},
		{"alpha 1/2, one byte short", Config{SwitchBuffer: 7999, Alpha: .5}, 2},
	} {
		n := burst(t, c.cfg, 1, 9)
		n.RunUntil(StartTime + 950) // all nine have come, none has left
		s := hostPort(t, n, 0)
		if s.Packets != c.admits || s.Drops != 9-c.admits || s.MaxDepth != int(c.admits)*1000 ||
			s.Depth != s.MaxDepth {
			t.Errorf("%s: %+v, want %d admitted", c.name, s, c.admits)
		}
		for n.Step() {
		}
		want(t, c.name+": left over", hostPort(t, n, 0).Depth, 0)
		want(t, c.name+": tail drops", n.Stats().TailDrops, s.Drops)
	}
}

// A packet that leaves at the very moment another comes makes room for it.
func TestRoomAtDeparture(t *testing.T) {
	n := burst(t, Config{PortBuffer: 1000}, 1, 12)
	for n.Step() {
	}
	// The first comes at 100 ns and leaves at 1100 ns, when the eleventh comes.
	s := hostPort(t, n, 0)
	if s.Packets != 2 || s.Drops != 10 {
		t.Errorf("%+v, want 2 packets", s)
	}
}

// With alpha 1 and k congested ports each gets 1/(k+1) of the buffer, give or take a packet.
func TestDynamicThreshold(t *testing.T) {
	const buffer = 60000
	for ports := 1; ports <= 3; ports++ {
		n := newNet(t, Config{LinkBitsPerSec: 80e9, SwitchBuffer: buffer, Alpha: 1})
		for p := range ports {
			to := open(t, n, EndpointConfig{Node: p})
			must(t, n.SetLinkBits(p, 8e6)) // 1 ms a packet: nothing leaves during the burst
			for s := range 3 {
				send(t, open(t, n, EndpointConfig{Node: 10 + 3*p + s}), to.LocalAddr(), 0, 60, 1000)
			}
		}
		n.RunUntil(n.Now() + 100_000)
		for p := range ports {
			if got := hostPort(t, n, p).Depth; got < buffer/(ports+1)-1000 || got > buffer/(ports+1)+1000 {
				t.Errorf("%d ports: port %d holds %d, want %d", ports, p, got, buffer/(ports+1))
			}
		}
	}
}

// Memory that other ports have freed meanwhile counts as free, although nobody asked them.
func TestBufferFreedElsewhere(t *testing.T) {
	n := newNet(t, Config{LinkBitsPerSec: 8e9, SwitchBuffer: 1000})
	a, b := pairOf(t, n)
	c := open(t, n, EndpointConfig{Node: 2})
	send(t, a, b.LocalAddr(), 0, 1, 1000)
	n.RunUntil(n.Now() + 5000)
	send(t, a, c.LocalAddr(), 0, 1, 1000)
	for n.Step() {
	}
	want(t, "tail drops", n.Stats().TailDrops, 0)
	want(t, "received", receive(t, c, nil), 1)
}

func TestECNThreshold(t *testing.T) {
	n := burst(t, Config{ECN: ECN{Kmin: 3000, Kmax: 3000}}, 1, 9)
	for n.Step() {
	}
	var ce []bool
	receive(t, n.nodes[0].binds[FirstPort].ep, func(p *transport.RxPacket) { ce = append(ce, p.CE) })
	for i, got := range ce { // all come before the first leaves: packet i makes the depth 1000*(i+1)
		want(t, "CE", got, i >= 3)
	}
	want(t, "packets", len(ce), 9)
	want(t, "marks", hostPort(t, n, 0).Marks, 6)
	want(t, "marked", n.Stats().Marked, 6)
}

// RED marks with a probability that grows with the depth.
func TestRED(t *testing.T) {
	marks := make([]int, 9)
	const runs = 4000
	for seed := range uint64(runs) {
		n := burst(t, Config{Seed: seed, RxRing: 16, ECN: ECN{Kmin: 2000, Kmax: 8000, Pmax: .6}}, 1, 9)
		for n.Step() {
		}
		i := 0
		receive(t, n.nodes[0].binds[FirstPort].ep, func(p *transport.RxPacket) {
			if p.CE {
				marks[i]++
			}
			i++
		})
	}
	for i, got := range marks {
		p := min(max(0, .1*float64(i-1)), .6)
		if i == 8 {
			p = 1
		}
		near(t, "marks", got, runs, p)
	}
}

// On the CX4 cluster the round trip of the smallest packet is 6 us across racks,
// less within one, and independent of the seed's choice of uplinks.
func TestCX4RoundTrip(t *testing.T) {
	for seed := range uint64(5) {
		c := CX4(seed)
		c.RackOf = func(node int) int { return node / 20 }
		n := newNet(t, c)
		a, far, near := open(t, n, EndpointConfig{Node: 0}), open(t, n, EndpointConfig{Node: 99}),
			open(t, n, EndpointConfig{Node: 1})
		var end Time
		attach(t, a, func(now Time, _ *transport.RxPacket) { end = now })
		for _, e := range []*Endpoint{far, near} {
			attach(t, e, func(_ Time, p *transport.RxPacket) { send(t, e, p.From, 0, 1, 16) })
		}
		trip := func(to *Endpoint) time.Duration {
			start := n.Now()
			send(t, a, to.LocalAddr(), 0, 1, 16)
			for n.Step() {
			}
			return end.Sub(start)
		}
		if rtt := trip(far); rtt < 5990 || rtt > 6010 {
			t.Errorf("across racks %v, want 6 us", rtt)
		}
		// 2 x (2 x 500 ns + switch 400 ns + 2 x 26.88 ns), each link rounded down
		if rtt := trip(near); rtt < 2904 || rtt > 2908 {
			t.Errorf("within a rack %v, want 2907 ns", rtt)
		}
	}
}

// Many flows spread over the parallel uplinks, one flow stays on one.
func TestUplinks(t *testing.T) {
	n := newNet(t, CX4(3))
	var from []*Endpoint
	to := open(t, n, EndpointConfig{Node: 1})
	for range 100 {
		from = append(from, open(t, n, EndpointConfig{Node: 0}))
	}
	for _, e := range from {
		send(t, e, to.LocalAddr(), 0, 10, 100)
	}
	for n.Step() {
	}
	var sum uint64
	for i := range 5 {
		up, _, err := n.Uplink(0, i)
		must(t, err)
		_, down, err := n.Uplink(1, i)
		must(t, err)
		for _, s := range []PortStats{up, down} {
			if s.Packets < 50 || s.Packets%10 != 0 {
				t.Errorf("link %d carried %d packets of 100 flows of 10", i, s.Packets)
			}
			sum += s.Packets
		}
	}
	want(t, "packets on all links", sum, 2000)
	want(t, "received", receive(t, to, nil), 1000)
	nic, err := n.NIC(0)
	must(t, err)
	want(t, "bytes on the wire", nic.Bytes, 1000*(100+EthernetOverhead))
}

// With Spines a flow goes up and comes down by one number, which UplinkTo knows, and its ports are
// what that depends on.
func TestSpines(t *testing.T) {
	cfg := CX4(3)
	cfg.Spines = true
	n := newNet(t, cfg)
	to := open(t, n, EndpointConfig{Node: 1})
	var want [5]uint64
	for range 100 {
		e := open(t, n, EndpointConfig{Node: 0})
		want[e.UplinkTo(to.LocalAddr())] += 10
		send(t, e, to.LocalAddr(), 0, 10, 100)
	}
	for n.Step() {
	}
	for i, w := range want {
		up, _, err := n.Uplink(0, i)
		must(t, err)
		_, down, err := n.Uplink(1, i)
		must(t, err)
		if up.Packets != w || down.Packets != w || w < 50 {
			t.Errorf("path %d: %d up, %d down, want %d", i, up.Packets, down.Packets, w)
		}
	}
	if got := to.UplinkTo(open(t, n, EndpointConfig{Node: 6}).LocalAddr()); got != -1 {
		t.Errorf("within a rack the uplink is %d", got)
	}
}

// Five racks of forty nodes have half the uplink rate that they could use.
func TestOversubscription(t *testing.T) {
	n := newNet(t, Config{LinkBitsPerSec: 8e9, Racks: 2, Uplinks: 1, UplinkBitsPerSec: 16e9})
	var last Time
	for i := range 4 { // four senders of 8 Gbit/s over 16 Gbit/s
		a, b := open(t, n, EndpointConfig{Node: 2 * i}), open(t, n, EndpointConfig{Node: 2*i + 1})
		attach(t, b, func(now Time, _ *transport.RxPacket) { last = max(last, now) })
		send(t, a, b.LocalAddr(), 0, 1000, 1000)
	}
	for n.Step() {
	}
	took := last.Sub(StartTime)
	if ideal := time.Duration(4 * 1000 * 1000 / 2); took < ideal || took > ideal+3000 {
		t.Errorf("took %v, want a little more than %v", took, ideal)
	}
}

// After ResetMaxDepth the deepest queue is that of the rest of the run.
func TestResetMaxDepth(t *testing.T) {
	n := newNet(t, Config{LinkBitsPerSec: 8e9, Racks: 2, UplinkBitsPerSec: 8e9})
	a, b := pairOf(t, n) // in different racks
	send(t, a, b.LocalAddr(), 0, 9, 1000)
	n.RunUntil(StartTime + 3500) // the node's link has sent three of nine
	nic, err := n.NIC(a.Node())
	must(t, err)
	want(t, "deepest before", nic.MaxDepth, 9000)
	n.ResetMaxDepth()
	nic, err = n.NIC(a.Node())
	must(t, err)
	want(t, "deepest from now on", nic.MaxDepth, 6000)
	for n.Step() {
	}
	n.ResetMaxDepth()
	up, down, err := n.Uplink(0, 0)
	must(t, err)
	want(t, "uplinks", up.MaxDepth+down.MaxDepth, 0)
	want(t, "host port", hostPort(t, n, b.Node()).MaxDepth, 0)
	want(t, "packets are still counted", hostPort(t, n, b.Node()).Packets, 9)
}
