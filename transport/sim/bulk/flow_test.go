package bulk

import (
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport/sim"
)

// bottleneck is a network whose node 0 has a slow link with a queue of so many bytes.
func bottleneck(t *testing.T, bits int64, rtt time.Duration, queue int) *sim.Network {
	net, err := sim.New(sim.Config{LinkBitsPerSec: 100e9, PropDelay: rtt / 4, PortBuffer: queue,
		WireOverhead: sim.EthernetOverhead, RxRing: 1 << 14})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = net.NewEndpoint(sim.EndpointConfig{}); err != nil {
		t.Fatal(err)
	}
	if err = net.SetLinkBits(0, bits); err != nil {
		t.Fatal(err)
	}
	return net
}

// TestFlow: a flow fills its link and its queue, and one loss costs three tenths of the window. Two
// flows share it.
func TestFlow(t *testing.T) {
	const bits, rtt, queue = 100e6, 10 * time.Millisecond, 125_000 // one BDP
	net := bottleneck(t, bits, rtt, queue)
	var flows []*Flow
	start := func(node int) {
		f, err := Start(net, node, 0)
		if err != nil {
			t.Fatal(err)
		}
		flows = append(flows, f)
	}
	start(1)
	net.RunUntil(net.Now().Add(5 * time.Second))
	was, low, high := flows[0].Acked(), math.Inf(1), 0.0
	for range 2000 {
		net.RunUntil(net.Now().Add(5 * time.Millisecond))
		low, high = min(low, flows[0].win.Size), max(high, flows[0].win.Size)
	}
	rate := float64(flows[0].Acked()-was) * 8 / 10
	if rate < 0.94*bits || rate > 0.96*bits { // 1472 of 1538 bytes are payload
		t.Errorf("alone: %.1f Mbit/s", rate/1e6)
	}
	if most := 2 * 125_000 / 1538.0; high < most || high > most*1.05 || math.Abs(low/high-0.7) > 0.03 {
		t.Errorf("window from %.1f to %.1f packets", low, high)
	}
	start(2)
	net.RunUntil(net.Now().Add(10 * time.Second))
	a, b := flows[0].Acked(), flows[1].Acked()
	net.RunUntil(net.Now().Add(20 * time.Second))
	a, b = flows[0].Acked()-a, flows[1].Acked()-b
	if r := float64(a) / float64(b); r < 0.6 || r > 1.7 {
		t.Errorf("two flows: %d and %d bytes", a, b)
	}
	flows[0].Stop()
	flows[1].Stop()
	b = flows[1].Acked()
	net.RunUntil(net.Now().Add(time.Second))
	if flows[1].Acked() != b {
		t.Error("a flow that was stopped goes on")
	}
}

// TestTimeout: a flow that loses all of a window goes on after its timeout.
func TestTimeout(t *testing.T) {
	net := bottleneck(t, 100e6, 10*time.Millisecond, 125_000)
	f, err := Start(net, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	net.RunUntil(net.Now().Add(time.Second))
	was := f.Acked()
	if err = net.Cut([]int{1}, []int{0}); err != nil {
		t.Fatal(err)
	}
	net.RunUntil(net.Now().Add(time.Second))
	if got := f.Acked() - was; got > 300_000 || f.win.Size > 2 {
		t.Errorf("%d bytes through a cut link, a window of %.0f", got, f.win.Size)
	}
	net.Heal()
	was = f.Acked()
	net.RunUntil(net.Now().Add(5 * time.Second))
	if rate := float64(f.Acked()-was) * 8 / 5; rate < 50e6 {
		t.Errorf("%.1f Mbit/s after the cut", rate/1e6)
	}
}
