// Package onesided is the contract of memory that a peer reads and writes without the owner's
// processor: regions, WRITE, READ, a doorbell and completions. Remote fetching (package rfp) is
// built on it and on nothing else.
//
// # Map
//
//	owns       the contract of links
//	called by  package rfp; three packages below implement it
//	never      an access leaves its region
//
// # The contract
//
// A [Link] joins two sides, for the life of both. Each side has regions, numbered from 0; a
// [Spec] gives the size of each and what the peer may do with it. A region without access is the
// side's own: what it writes from and reads into.
//
//   - A WRITE copies bytes of an own region to a region of the peer. The bytes become visible from
//     the lower address to the higher, and the last 8 of them at once if they are aligned. [Load]
//     by the peer that sees them sees all the others.
//   - A READ copies bytes of a region of the peer to an own one, at some time between Post and its
//     completion. It is not atomic: it may see the first half before and the second half after a
//     store of the owner, or the reverse. Only aligned words are never torn.
//   - The operations of a link take place in the order of posting: a READ sees what a WRITE before
//     it wrote.
//   - A completion follows each READ, and each WRITE posted with Signal, in the order of posting.
//     [Link.Post] fails as a whole, and posts nothing, if the batch names memory outside the
//     peer's regions, or an access that the peer did not grant. The link goes on.
//   - A link that has ended delivers one completion with an error for each operation that would
//     have
//     had one, and [Link.Err] says why.
//
// [Link.View] is a short way: where the peer's memory is mapped (shared memory), the reader may
// look at it in place, as if a READ cost nothing. [Link.Window] is its counterpart: the writer
// stores there by [Copy], and has no need of a doorbell or a completion.
//
// One goroutine at a time uses a side of a link.
//
// # Implementations
//
// Package shm maps memory files; package rc posts to RC queue pairs of InfiniBand or RoCE; package
// model is a network in virtual time whose adapters have the rates that papers have published. All
// pass package conformance.
package onesided
