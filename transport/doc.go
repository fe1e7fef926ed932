// Package transport is the contract between the endpoint and a network: bursts
// of datagrams out, bursts of datagrams in, and a way to sleep until there is
// something to do.
//
// The endpoint makes one interface call per burst, never one per packet. [Caps] describes what a
// transport can do, [Path] the same for one destination.
//
// # One interface
//
// [Transport] is all that an endpoint asks of a network, and it has no optional part: what a
// transport cannot do it says by an answer. So a decorator that embeds the Transport it decorates
// passes everything on, and a capture changes nothing of the program that it looks at.
//
//	type Mine struct {
//		transport.Base // says "nothing" where Mine has nothing to say
//		...
//	}
//
//	type Counting struct {
//		transport.Transport // what it decorates
//		...
//	}
//
// Decorators and transports are used by pointer: so an endpoint can tell that it is given one that
// another endpoint has. It does not look into a decorator, so what that decorates must have no
// other owner.
//
// A transport with nothing to say about hints, memory, other ways to sleep and private paths
// embeds [Base]. Without it, one that has only the other methods does not compile.
//
// Transports of one [Transport.Kind] can take each other's place. A decorator that embeds has none,
// since what it does to packets is its own: it is never closed in favour of another.
//
// A decorator that holds packets back must mind that there are three ways to sleep: it changes Nap
// and PrepareWait where it changes Wait.
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
