// Package load keeps a number of RPCs in flight, checks every response, and records every
// latency. Each RPC in flight has a goroutine, unless the peer's connections are streams:
// then each connection has one, which keeps its share in flight.
package load
