package simlab

import (
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

func smallWorkload() WorkloadConfig {
	return WorkloadConfig{Workload: "W3", Algorithms: []erpc.CCAlgorithm{erpc.CCSwift}, Load: 0.5,
		Nodes: 4, Warmup: time.Millisecond, Duration: 5 * time.Millisecond, Seed: 1}
}

// TestHomaSizes: the shares of a workload are a whole, and its mean is what Homa's repository says.
func TestHomaSizes(t *testing.T) {
	for name, mean := range map[string]float64{"W2": 440.79, "W3": 2927.35, "W4": 127796.6,
		"W5": 2547262} {
		shares, got, last := 0.0, 0.0, 0
		for _, s := range homaWorkloads[name] {
			if shares, got = shares+s.share, got+s.share*float64(s.size); s.size <= last {
				t.Errorf("%s: %d after %d", name, s.size, last)
			}
			if last = s.size; (s.homa50 == 0) != (name == "W2") || s.homa99 < s.homa50 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		near(t, name+" shares", shares, 1, 0.002)
		near(t, name+" mean", got, mean, 0.005)
	}
}

// TestWorkload: messages come at the load that was asked for, in the shares of the workload, and
// where the network is nearly idle nothing is slower than there.
func TestWorkload(t *testing.T) {
	long(t)
	c := smallWorkload()
	c.Load, c.Algorithms = 0.02, []erpc.CCAlgorithm{erpc.CCNone}
	c.Duration = 20 * time.Millisecond
	res, err := Workload(t.Context(), c, nil)
	if err != nil || len(res.Rows) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	r := res.Rows[0]
	if r.Unfinished != 0 || r.Drops != 0 || r.Retransmits != 0 || len(r.Sizes) != 7 {
		t.Errorf("%+v", r)
	}
	n := 0
	for _, s := range r.Sizes {
		n += s.Echoes
		want := s.Share * float64(r.Echoes)
		if d := math.Abs(float64(s.Echoes) - want); d > 4*math.Sqrt(want) {
			t.Errorf("%d messages, not %.0f, of %+v", s.Echoes, want, s)
		}
		if s.P50 < 0.99 || s.P50 > 1.2 || s.P99 < s.P50 || s.Homa == nil {
			t.Errorf("%+v", s)
		}
	}
	if n != r.Echoes || r.Sizes[0].Least != 13 || r.Sizes[6].Most != 11596377 {
		t.Errorf("%d of %d messages in rows, %+v", n, r.Echoes, r.Sizes)
	}
	c = smallWorkload()
	c.Workload, c.Load, c.Seed = "W2", 0.5, 2 // a seed without the rare messages of megabytes
	if res, err = Workload(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	near(t, "links used", res.Rows[0].Busy, 0.5, 0.25)
	if res.Rows[0].Sizes[0].Homa != nil {
		t.Error("Homa's figures of W2, where nothing is published")
	}
}

// TestOverload: what has no answer at the end counts as unfinished, with the time until then.
func TestOverload(t *testing.T) {
	long(t)
	c := smallWorkload()
	c.Workload, c.Load, c.Duration, c.Warmup = "W4", 0.99, time.Millisecond, 0
	res, err := Workload(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := res.Rows[0]
	worst := r.Sizes[len(r.Sizes)-1]
	if r.Unfinished == 0 || r.Unfinished > r.Echoes || math.IsNaN(worst.P99) {
		t.Errorf("%+v", r)
	}
}
