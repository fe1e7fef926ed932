// Package client talks to index servers: [Client] from goroutines, [Loop] in the thread of an event
// loop; [Bytes] is a Client for values of any length.
//
// Both know a static [Map] of ranges: which server has the keys from where on. One server alone is
// a map with one range. A scan goes on at the next server when it has reached the border of a
// range; it is no snapshot, within one server or across them. Nothing checks that servers hold what
// the map says: a program that changes a map moves the keys too.
//
// An operation that fails with an error that does not match erpc.ErrNotRun may have run. The client
// repeats nothing by itself.
//
// # Map
//
//	owns       calls of one application to index servers
//	called by  applications, cmd/erpc-index
//	never      an operation is repeated by itself
package client
