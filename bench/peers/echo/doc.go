// Package echo puts RPC libraries behind one small interface: a server that answers
// with a payload, and calls to it. Each is used as its documentation advises, over
// loopback, without encryption or compression. Those that speak Protocol Buffers
// send the same message, a BytesValue.
//
// One peer is no library: tcp is an echo over TCP written by hand, in tcp*.go. A thread of
// the client and the server each spin on one non-blocking socket, and what has come is
// answered in place. It has no sessions, no at-most-once across connections, no recovery,
// no congestion control of its own and no timeouts: who loses the connection does not know
// which requests ran.
package echo
