// Package loadgen is what programs that put load on servers share: transports by name, an endpoint
// with its sessions, an open loop, and an echo server to compare with.
//
// One goroutine uses an [Endpoint].
package loadgen
