// Package prometheus exports the measurements of package metrics to Prometheus.
//
// A [Collector] is registered like any other. Each scrape takes a snapshot of every loop, and
// waits for at most Config.Timeout: a loop that is stuck gives its last counters and
// erpc_late 1. Nothing is counted by request type before the first scrape, and nothing waits
// for a scrape.
//
// Histograms have native buckets (schema 3, each bucket 9 % wide) for servers that take them, and
// classic ones for all others.
//
// It is a module of its own, so that programs which do not use Prometheus do not depend on it.
//
// # Map
//
//	owns       a collector
//	called by  a Prometheus registry, when it is scraped
//	never      a scrape holds up a loop, even one that hangs
package prometheus
