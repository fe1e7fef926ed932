// Package metrics turns snapshots of event loops into named measurements, for exporters in modules
// of their own such as metrics/prometheus. Names, labels and meaning are here once, so that all of
// them export the same.
//
// It owns the catalogue, which does not change. An exporter asks for snapshots when it is scraped,
// with a time limit, and calls [Points]. A loop that does not answer in time gives its last
// counters and the measurement "late"; it never waits for a scrape.
//
// # Map
//
//	owns       names, labels and units of all measurements
//	called by  exporters, with snapshots of package erpc
//	never      two exporters name the same thing differently; a loop waits
//
// # Names
//
// Names are in the plain form of OpenTelemetry, "call.latency". Prometheus gets them with the
// prefix erpc_, underscores, the unit and _total: erpc_call_latency_seconds, erpc_calls_total. All
// have the labels endpoint (its address) and loop (its number at that address, 0 if there is one).
package metrics
