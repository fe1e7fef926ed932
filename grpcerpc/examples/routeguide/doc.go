// Command routeguide has a call of each kind over erpc: one answer, a stream of answers, a stream
// of requests, and both. Without arguments it is server and client at once, in shared memory.
//
//	routeguide
//	routeguide -serve 127.0.0.1:31850
//	routeguide 127.0.0.1:31850
package main
