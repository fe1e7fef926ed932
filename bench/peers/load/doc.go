// Package load keeps a number of RPCs in flight, one per goroutine, checks every
// response, and records every latency.
package load
