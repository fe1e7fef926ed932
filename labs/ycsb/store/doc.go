// Package store has the stores that YCSB runs on behind one interface, and the gRPC service over
// it: this project's ordered index and its key-value store in memory, and pebble on disk.
//
//	index    package index: an ordered map; a record is an immutable value, replaced by each update
//	mica     package kv/mica in store mode: 16 partitions behind locks; no order, so no scans
//	pebble   an LSM tree on disk (github.com/cockroachdb/pebble/v2): a log that is not synced
//
// An update of a field reads the record and writes it anew, under a lock that its key shares with
// others. Reads take no lock in index and pebble.
package store
