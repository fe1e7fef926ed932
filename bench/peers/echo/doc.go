// Package echo puts RPC libraries behind one small interface: a server that answers
// with a payload, and calls to it. Each is used as its documentation advises, over
// loopback, without encryption or compression. Those that speak Protocol Buffers
// send the same message, a BytesValue.
package echo
