package prometheus

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/userspace-rpc/erpc/erpc"
)

// schema says how wide native buckets are: each is 2^(1/8) times the one below.
const schema = 3

// classic are the upper bounds of classic buckets, in seconds: 1 us to 10 s, three per decade.
var classic = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2,
	0.1, 0.2, 0.5, 1, 2, 5, 10,
}

// durations is a histogram with native and classic buckets.
type durations struct {
	prometheus.Metric // native
	classic           []*dto.Bucket
}

func newDurations(
	desc *prometheus.Desc, h *erpc.Histogram, labels []string,
) (prometheus.Metric, error) {
	native := map[int]int64{}
	counts := make([]uint64, len(classic))
	zero := uint64(0)
	for b := range h.Buckets {
		mid := time.Duration(b.Low+b.High).Seconds() / 2
		if b.Low == 0 {
			zero += b.Count
		} else {
			native[int(math.Ceil(math.Log2(mid)*(1<<schema)))] += int64(b.Count)
		}
		for i, bound := range classic {
			if mid <= bound {
				counts[i] += b.Count
				break
			}
		}
	}
	sum := time.Duration(h.Sum).Seconds()
	m, err := prometheus.NewConstNativeHistogram(desc, h.Count, sum, native, nil, zero, schema,
		1e-9, time.Time{}, labels...)
	if err != nil {
		return nil, err
	}
	d := &durations{Metric: m}
	below := uint64(0)
	for i, bound := range classic {
		below += counts[i]
		d.classic = append(d.classic, &dto.Bucket{CumulativeCount: new(below), UpperBound: new(bound)})
	}
	return d, nil
}

// Write implements prometheus.Metric.
func (d *durations) Write(out *dto.Metric) error {
	if err := d.Metric.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = d.classic
	return nil
}
