package otel

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
)

// Scope is the name under which metrics and spans are.
const Scope = "github.com/userspace-rpc/erpc/metrics/otel"

// scale says how wide the buckets of exponential histograms are: each is 2^(1/8) times the one
// below.
const scale = 3

// Config configures a Producer. The zero value works.
type Config struct {
	// TypeName names a request type in the attribute "type". Default: its number.
	TypeName func(reqType uint8) string
	// Timeout is how long a collection waits for the loops. Default: a second.
	Timeout time.Duration
}

// Producer produces the measurements of all loops of what it watches, as metric.Producer of the
// SDK. It is safe in any goroutine.
type Producer struct {
	cfg     Config
	watched []erpc.Watched
	start   time.Time
}

// NewProducer returns a Producer of Servers, Loops, Clients and Rpcs. Loops that a Server gets
// later are produced too.
func NewProducer(cfg Config, watched ...erpc.Watched) *Producer {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	return &Producer{cfg: cfg, watched: watched, start: time.Now()}
}

// Produce implements metric.Producer. It gives no error: a loop that does not answer before ctx or
// the timeout ends gives its last counters and the measurement "late".
func (p *Producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	snaps := erpc.Snapshots(ctx, erpc.SnapshotOptions{}, p.watched...)
	now := time.Now()
	points := map[*metrics.Metric][]metrics.Point{}
	for _, pt := range metrics.Points(metrics.Options{TypeName: p.cfg.TypeName}, snaps...) {
		points[pt.Metric] = append(points[pt.Metric], pt)
	}
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: Scope}}
	for _, m := range metrics.Catalogue {
		if len(points[m]) > 0 {
			scope.Metrics = append(scope.Metrics, metricdata.Metrics{
				Name: "erpc." + m.Name, Description: m.Help, Unit: m.Unit,
				Data: p.aggregate(m, points[m], now),
			})
		}
	}
	return []metricdata.ScopeMetrics{scope}, nil
}

// aggregate returns the points of one measurement.
func (p *Producer) aggregate(
	m *metrics.Metric, points []metrics.Point, now time.Time,
) metricdata.Aggregation {
	if m.Kind == metrics.Durations {
		h := metricdata.ExponentialHistogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for i := range points {
			d := exponential(points[i].Durations)
			d.Attributes, d.StartTime, d.Time = attributes(&points[i]), p.start, now
			h.DataPoints = append(h.DataPoints, d)
		}
		return h
	}
	var values []metricdata.DataPoint[float64]
	for i := range points {
		values = append(values, metricdata.DataPoint[float64]{
			Attributes: attributes(&points[i]), StartTime: p.start, Time: now,
			Value: points[i].Value,
		})
	}
	if m.Kind == metrics.Gauge {
		return metricdata.Gauge[float64]{DataPoints: values}
	}
	return metricdata.Sum[float64]{DataPoints: values, IsMonotonic: true,
		Temporality: metricdata.CumulativeTemporality}
}

// attributes returns what a point is labelled with.
func attributes(p *metrics.Point) attribute.Set {
	list := []attribute.KeyValue{
		attribute.String("endpoint", p.Endpoint), attribute.String("loop", p.Loop),
	}
	for i, name := range p.Metric.Labels {
		list = append(list, attribute.String(name, p.Labels[i]))
	}
	return attribute.NewSet(list...)
}

// exponential returns a histogram in ns as one in seconds. A bucket counts where its middle is.
func exponential(h *erpc.Histogram) metricdata.ExponentialHistogramDataPoint[float64] {
	d := metricdata.ExponentialHistogramDataPoint[float64]{
		Count: h.Count, Sum: time.Duration(h.Sum).Seconds(), Scale: scale,
	}
	counts := &d.PositiveBucket
	for b := range h.Buckets { // the shortest durations first
		if b.Low == 0 {
			d.ZeroCount += b.Count
			continue
		}
		middle := time.Duration(b.Low+b.High).Seconds() / 2
		i := int32(math.Ceil(math.Log2(middle)*(1<<scale))) - 1
		if len(counts.Counts) == 0 {
			counts.Offset = i
		}
		for int32(len(counts.Counts)) <= i-counts.Offset {
			counts.Counts = append(counts.Counts, 0)
		}
		counts.Counts[i-counts.Offset] += b.Count
	}
	return d
}
