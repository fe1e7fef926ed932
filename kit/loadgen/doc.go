// Package loadgen serves programs that put load on servers: transports by name, an endpoint with
// its sessions, an open loop, and an echo server to compare with.
//
// One goroutine uses an [Endpoint].
//
// # Map
//
//	owns       sessions that put load on a server
//	called by  commands and programs in labs/
//	never      a request that failed counts as done
package loadgen
