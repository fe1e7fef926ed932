package simlab

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// Bars for congestion control and loss recovery. The figures of the paper
// (NSDI'19, tables 4 and 5) are in paper.go.

var withControl = []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCDCQCN, erpc.CCSwift}

// TestIncastBars: control lowers the median RTT at least 5 times at 20 and 50 flows and
// the 99th percentile at least 3 times at 20, 50 and 100, takes at most a tenth of the
// bandwidth, shares it, and loses no packet.
func TestIncastBars(t *testing.T) {
	long(t)
	for _, algorithm := range withControl {
		for _, reverse := range []bool{false, true} {
			c := IncastConfig{Degrees: []int{20, 50, 100}, CC: []bool{true, false}, Algorithm: algorithm,
				Size: 8 << 20, Credits: 32,
				Reverse: reverse, Warmup: 20 * time.Millisecond, Duration: 20 * time.Millisecond, Seed: 1}
			if algorithm == erpc.CCDCQCN && reverse {
				continue // marks of responses: TestMarkedResponses
			}
			res, err := Incast(t.Context(), c, nil)
			if err != nil || len(res.Pairs) != 3 {
				t.Fatalf("%+v, %v", res, err)
			}
			for _, p := range res.Pairs {
				t.Logf("%v, reverse %v: %d flows: RTT median %.1fx lower, 99 %% %.1fx, bandwidth %.3f",
					algorithm.String(), reverse, p.Degree, p.P50, p.P99, p.Share)
				if p.P50 < 5 && p.Degree <= 50 || p.P99 < 3 || p.Share < 0.9 {
					t.Errorf("%v, reverse %v: %+v", algorithm.String(), reverse, p)
				}
			}
			for _, r := range res.Rows {
				if r.Drops != 0 || r.Retransmits != 0 || r.Jain < 0.95 {
					t.Errorf("%+v", r)
				}
			}
		}
	}
}

// TestThousand: a thousand flows have windows below one packet. Swift lowers the median RTT at
// least 20 times and the 99th percentile 2 times, takes at most a tenth of the bandwidth, and
// loses no packet, where those without control lose tens of thousands.
func TestThousand(t *testing.T) {
	long(t)
	c := IncastConfig{Degrees: []int{1000}, CC: []bool{true, false}, Algorithm: erpc.CCSwift,
		Size: 512 << 10, Credits: 32,
		Warmup: 100 * time.Millisecond, Duration: 50 * time.Millisecond, Seed: 1}
	res, err := Incast(t.Context(), c, nil)
	if err != nil || len(res.Pairs) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	t.Logf("%+v", res)
	on, off, p := res.Rows[0], res.Rows[1], res.Pairs[0]
	if p.P50 < 20 || p.P99 < 2 || p.Share < 0.9 || on.Drops != 0 || off.Drops < 20_000 {
		t.Errorf("%+v", res)
	}
}

// TestManyCredits: with 256 credits each, 100 flows start with twice what the switch
// can hold. Control still comes to a fair share and a short queue.
func TestManyCredits(t *testing.T) {
	long(t)
	c := IncastConfig{Degrees: []int{100}, CC: []bool{true}, Algorithm: erpc.CCTimely, Size: 8 << 20,
		Credits: 256,
		Warmup:  50 * time.Millisecond, Duration: 20 * time.Millisecond, Seed: 1}
	res, err := Incast(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Rows[0]; r.P99 > 370 || r.Jain < 0.95 || r.Gbps < 0.9*22.9 || r.Drops != 0 {
		t.Errorf("%+v", r)
	}
}

// TestMarkedResponses: large responses that meet congestion on their way to the client
// slow down the RFRs that ask for them.
func TestMarkedResponses(t *testing.T) {
	long(t)
	c := IncastConfig{Degrees: []int{20}, CC: []bool{true, false}, Algorithm: erpc.CCDCQCN,
		Size: 8 << 20, Credits: 32,
		Reverse: true, Warmup: 20 * time.Millisecond, Duration: 20 * time.Millisecond, Seed: 1}
	res, err := Incast(t.Context(), c, nil)
	if err != nil || len(res.Pairs) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if p := res.Pairs[0]; p.P50 < 5 || p.P99 < 3 || p.Share < 0.9 {
		t.Errorf("%+v", p)
	}
}

// TestFairnessBars: Jain's index of 20 flows is at least 0.95 in each window, and two
// flows that start far apart share evenly within 50 ms.
func TestFairnessBars(t *testing.T) {
	long(t)
	for _, algorithm := range withControl {
		c := IncastConfig{Size: 8 << 20, Credits: 32, Warmup: 20 * time.Millisecond, Seed: 1}
		r, err := Fairness(t.Context(), c, algorithm, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.JainMin < 0.95 || r.Settled == nil || *r.Settled > 0.05 {
			t.Errorf("%+v", r)
		}
	}
}

// TestNewcomers: flows that begin while a queue stands, and so never see the path
// empty, get no more than those that were there before.
func TestNewcomers(t *testing.T) {
	long(t)
	const old, fresh = 40, 10
	c := IncastConfig{Size: 8 << 20, Credits: 32, Seed: 1}
	x, err := c.build(t.Context(), old+fresh, erpc.CCTimely, nil)
	if x != nil {
		defer x.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range x.flows[:old] {
		f.begin()
	}
	if err := x.run(20*time.Millisecond, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, client := range x.threads {
		client.opened = 0
	}
	for _, client := range x.clients[old:] { // new sessions
		client.servers = nil
		client.dial(x.victim)
	}
	if err := x.connect(); err != nil {
		t.Fatal(err)
	}
	for i, f := range x.flows[old:] {
		f.session = x.clients[old+i].servers[0]
		f.begin()
	}
	if err := x.run(20*time.Millisecond, 0, 0); err != nil {
		t.Fatal(err)
	}
	shares, err := x.window(10*time.Millisecond, 0)
	if err != nil {
		t.Fatal(err)
	}
	if j := jain(shares); j < 0.95 {
		t.Errorf("Jain's index %.3f, shares %v", j, shares)
	}
}

// TestLossBars: at 1e-4 at least 80 % and at 1e-3 at least 50 % of the bandwidth
// without loss.
func TestLossBars(t *testing.T) {
	long(t)
	for _, algorithm := range []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCSwift} {
		c := LossConfig{Rates: []float64{0, 1e-4, 1e-3}, Algorithm: algorithm, Size: 8 << 20,
			Credits: 32, Duration: 50 * time.Millisecond, Seeds: 3, Seed: 1}
		res, err := Loss(t.Context(), c, nil)
		if err != nil || len(res.Rows) != 3 {
			t.Fatalf("%+v, %v", res, err)
		}
		for i, least := range []float64{1, 0.8, 0.5} {
			r := res.Rows[i]
			t.Logf("%v, loss %v: %.1f Gbit/s, %.2f of loss-free", algorithm.String(), r.Rate, r.Gbps,
				r.Share)
			if r.Share < least || i > 0 && r.Lost == 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}
