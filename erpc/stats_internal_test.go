package erpc

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestHistogram: buckets are ordered, hold what belongs to them, and quantiles are
// within a bucket of the exact ones; differences and sums agree.
func TestHistogram(t *testing.T) {
	for i := range histBuckets {
		if got := bucketOf(floorOf(i)); got != i {
			t.Fatalf("bucket of %d ns is %d, want %d", floorOf(i), got, i)
		}
		if i > 0 && bucketOf(floorOf(i)-1) != i-1 {
			t.Fatalf("bucket %d does not end below %d ns", i-1, floorOf(i))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var h, early Histogram
	var all []int64
	for i := range 20_000 {
		ns := int64(r.ExpFloat64() * 50_000)
		if i < 5000 {
			early.Add(ns)
		} else {
			all = append(all, ns)
		}
		h.Add(ns)
	}
	late := h.Since(&early)
	slices.Sort(all)
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		exact := all[int(q*float64(len(all)))]
		if got := late.Quantile(q); got > time.Duration(exact) || float64(got) < float64(exact)*0.968-1 {
			t.Errorf("quantile %v is %v, want %d ns", q, got, exact)
		}
	}
	late.Merge(&early)
	if late != h {
		t.Error("a difference and what was taken off do not add up")
	}
	var odd Histogram
	for _, ns := range []int64{-1, 0, 1<<63 - 1} {
		odd.Add(ns)
	}
	if odd.Quantile(0) != 0 || odd.Quantile(1) < 1<<39 || (&Histogram{}).Quantile(.5) != 0 {
		t.Error("durations out of range are not counted at the ends")
	}
}
