// Package transport is the contract between the endpoint and a network: bursts
// of datagrams out, bursts of datagrams in, and a way to sleep until there is
// something to do.
//
// The endpoint makes one interface call per burst, never one per packet. What a
// transport can do beyond the contract is described by [Caps], for one destination by
// [Path], or by a small optional interface of its own that the user of the transport may
// look for.
//
// Implementations live below this package; each passes the tests of package
// conformance. The endpoint never imports an implementation: commands, examples
// and tests choose one.
//
// # Map
//
//	owns       the contract of transports, addresses, paths
//	called by  erpc, which knows no implementation
//	never      an interface call per packet: bursts only
package transport
