package cubic

import (
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport/sim"
)

// grow answers a window's worth of segments in each round trip until a time.
func grow(w *window, from, until, rtt time.Duration) time.Duration {
	for now := from; ; {
		n := int(w.size)
		for i := range n {
			at := now + rtt*time.Duration(i)/time.Duration(n)
			if at >= until {
				return at
			}
			w.acked(at, rtt)
		}
		now += rtt
	}
}

// TestGrowth: after a loss the window is that of RFC 9438, figure 1, within the round trip by which
// it is ahead: cwnd(t) = C (t - K)^3 + W_max.
func TestGrowth(t *testing.T) {
	const rtt = 50 * time.Millisecond
	w := newWindow()
	w.size = 2000
	w.lost(0, 2000)
	k := math.Cbrt(2000 * 0.3 / 0.4)
	if w.size != 1400 || w.max != 2000 || math.Abs(w.k-k) > 1e-9 {
		t.Fatalf("after a loss: %+v", w)
	}
	now := time.Duration(0)
	for _, s := range []float64{1, 5, 10, k, 14, 20} {
		now = grow(&w, now, time.Duration(s*float64(time.Second)), rtt)
		low := 0.4*math.Pow(s-k-2*rtt.Seconds(), 3) + 2000
		high := 0.4*math.Pow(s-k+2*rtt.Seconds(), 3) + 2000
		if w.size < low-1 || w.size > high+1 {
			t.Errorf("after %v s: %.1f, want %.1f to %.1f", s, w.size, low, high)
		}
	}
}

// TestRenoFriendly: on a short path the window grows as section 4.3 says: by alpha in a round trip
// up to what it was before the loss, then by one.
func TestRenoFriendly(t *testing.T) {
	const rtt = time.Millisecond
	w := newWindow()
	w.size = 40
	w.lost(0, 40)
	now := grow(&w, 0, 20*rtt, rtt)
	if want := 28 + 20*9/17.0; math.Abs(w.size-want) > 1 {
		t.Errorf("after 20 round trips: %.1f, want %.1f", w.size, want)
	}
	grow(&w, now, 43*rtt, rtt)
	if want := 40 + 20.3; math.Abs(w.size-want) > 2 {
		t.Errorf("after 43 round trips: %.1f, want %.1f", w.size, want)
	}
}

// TestFastConvergence: a flow whose window has fallen since gives way (section 4.7), and a timeout
// begins with one segment.
func TestFastConvergence(t *testing.T) {
	w := newWindow()
	w.size = 100
	w.lost(0, 100)
	w.lost(time.Second, 70)
	if math.Abs(w.max-70*0.85) > 1e-9 || math.Abs(w.size-49) > 1e-9 {
		t.Errorf("after a second loss: %+v", w)
	}
	w.expired(2*time.Second, 49)
	if w.size != 1 || math.Abs(w.threshold-34.3) > 1e-9 {
		t.Errorf("after a timeout: %+v", w)
	}
	w.acked(2*time.Second, time.Millisecond)
	if w.size != 2 {
		t.Errorf("slow start: %+v", w)
	}
}

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
		low, high = min(low, flows[0].Window()), max(high, flows[0].Window())
	}
	rate := float64(flows[0].Acked()-was) * 8 / 10
	if rate < 0.94*bits || rate > 0.96*bits { // 1472 of 1538 bytes are payload
		t.Errorf("alone: %.1f Mbit/s", rate/1e6)
	}
	if most := 2 * 125_000 / 1538.0; high < most || high > most*1.05 || math.Abs(low/high-kept) > 0.03 {
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
	if got := f.Acked() - was; got > 300_000 || f.Window() > 2 {
		t.Errorf("%d bytes through a cut link, a window of %.0f", got, f.Window())
	}
	net.Heal()
	was = f.Acked()
	net.RunUntil(net.Now().Add(5 * time.Second))
	if rate := float64(f.Acked()-was) * 8 / 5; rate < 50e6 {
		t.Errorf("%.1f Mbit/s after the cut", rate/1e6)
	}
}
