// Package echo puts RPC libraries behind one small interface: a server that answers
// with a payload, and calls to it. Each is used as its documentation advises, over
// loopback or where it is told, without compression, and without encryption unless it
// is told or has none without. Those that speak Protocol Buffers send the same message,
// a BytesValue.
//
// Some peers are no library but echoes written by hand, in raw.go, tcp*.go and udp*.go. tcp-mux
// has goroutines for callers. Of tcp, udp and udp-bare a thread of the client and the server each
// spin on one non-blocking socket, and what has come is answered in place. They have no sessions,
// no at-most-once across connections, no recovery and no congestion control of their own. If a
// connection of tcp ends, the client does not know which requests ran, and nothing has a timeout.
// If a datagram of udp or udp-bare is lost, the run ends.
package echo
