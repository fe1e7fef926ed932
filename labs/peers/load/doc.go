// Package load makes calls, checks every response, and records every latency.
//
// Run is a closed loop: it keeps a number of RPCs in flight. Each RPC in flight has a
// goroutine, unless the peer's connections are streams: then each connection has one, which
// keeps its share in flight.
//
// Open is an open loop: calls arrive when they do, whether earlier ones are answered or not,
// and each has a goroutine of its own.
package load
