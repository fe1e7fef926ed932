// Package lab measures the replicated store as the paper does (section 7.1): the latency
// of PUTs of 16 B keys, uniformly at random from a million, and 64 B values, by one
// client with one request at a time, and from request to commit at the leader; beside
// it a plain RPC of the same size over the same transport, in turns in the same run.
//
// Three replicas need three cores, and the client a fourth. Where there are fewer,
// replicas share threads: [Placement] says how, and a report names it.
//
// # Map
//
//	owns       replicas and a client that are measured
//	called by  labs/cmd/raft-bench and labs/raft
//	never      what is measured shares a thread unsaid
package lab
