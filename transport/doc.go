// Package transport is the contract between the endpoint and a network: bursts
// of datagrams out, bursts of datagrams in, and a way to sleep until there is
// something to do.
//
// The endpoint makes one interface call per burst, never one per packet. [Caps]
// describes what a transport can do beyond the contract, [Path] the same for one
// destination; else there is a small optional interface of its own that the user of the transport
// may look for.
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
