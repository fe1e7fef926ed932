// Package run drives clients of package ycsb against a store and measures: operations per second,
// latencies per operation in HdrHistograms, CPU time, and what was missing, wrong, stale or failed.
//
// A client makes one operation after the other, so N clients have N under way. They share
// connections evenly. A client that fails for longer than Spec.GiveUp ends; what it measured until
// then counts, and Result.Lost says how many did so. So the measurements of a run outlive its
// server.
package run
