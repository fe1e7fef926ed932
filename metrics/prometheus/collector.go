package prometheus

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
)

// Config configures a Collector. The zero value works.
type Config struct {
	// TypeName names a request type in the label "type". Default: its number.
	TypeName func(reqType uint8) string
	// Timeout is how long a scrape waits for the loops. Default: a second.
	Timeout time.Duration
}

// Collector collects the measurements of all loops of what it watches. It is safe in any goroutine.
type Collector struct {
	cfg     Config
	watched []erpc.Watched
	descs   map[*metrics.Metric]*prometheus.Desc
}

// New returns a Collector of Servers, Loops, Clients and Rpcs. Loops that a Server gets later are
// collected too.
func New(cfg Config, watched ...erpc.Watched) *Collector {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Second
	}
	c := &Collector{cfg: cfg, watched: watched, descs: map[*metrics.Metric]*prometheus.Desc{}}
	for _, m := range metrics.Catalogue {
		labels := append([]string{"endpoint", "loop"}, m.Labels...)
		c.descs[m] = prometheus.NewDesc(Name(m), m.Help, labels, nil)
	}
	return c
}

// Name returns the name that a measurement has in Prometheus.
func Name(m *metrics.Metric) string {
	name := "erpc_" + strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name = strings.TrimSuffix(name, "_bytes") + "_bytes"
	case "By/s":
		name += "_bytes_per_second"
	}
	if m.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics.Catalogue {
		ch <- c.descs[m]
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	snaps := erpc.Snapshots(ctx, erpc.SnapshotOptions{}, c.watched...)
	for _, p := range metrics.Points(metrics.Options{TypeName: c.cfg.TypeName}, snaps...) {
		labels := append([]string{p.Endpoint, p.Loop}, p.Labels...)
		desc := c.descs[p.Metric]
		var m prometheus.Metric
		var err error
		switch p.Metric.Kind {
		case metrics.Counter:
			m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, p.Value, labels...)
		case metrics.Gauge:
			m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, p.Value, labels...)
		default:
			m, err = newDurations(desc, p.Durations, labels)
		}
		if err != nil {
			m = prometheus.NewInvalidMetric(desc, err)
		}
		ch <- m
	}
}
