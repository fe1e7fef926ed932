// Package poll is how transports sleep on Linux: ppoll(2) over a few descriptors, and a Wake
// that ends the sleep from any goroutine. Elsewhere it is empty.
//
// A [Set] is a list of descriptors to poll. A [Sleeper] is a Set with what one transport needs
// beside it for Wait, Wake and Close of the contract in package transport. The transport keeps
// its own part of the wait: what counts as something to do already, and what a
// readable descriptor means.
//
// # Map
//
//	owns       one transport's sleep and wake-up
//	called by  transports on Linux
//	never      a wake-up is lost, or a Wake returns while Close frees its descriptor
//
// # A wait
//
// The calls of one wait stand in this order:
//
//	PrepareWait  Sleeper.Prepare   state: awake -> asleep
//	             the transport's own bell or interrupt, if packets make nothing readable without
//	             the transport's look for packets; Sleeper.Cancel if there are any
//	             Set.Sleep
//	FinishWait   Sleeper.Finish    state: -> awake
//	             what the transport does with readable descriptors
//	             Sleeper.Unlock
//
// # Why no wake-up is lost
//
// The state is one word that all sides change by atomic operations which also read it, so all
// changes have one order. Where does the swap of a Wake stand in it?
//
//   - Before Prepare: Prepare finds "waking" and does not let the transport sleep.
//   - Between Prepare and Finish: Wake finds "asleep" and writes to the eventfd. It stays readable
//     until Finish, so it does not matter whether ppoll has begun.
//   - After Finish: as in the first case, with the next Prepare.
//
// A Wake that finds "waking" does nothing: an earlier one has seen to the current or the next
// Wait, which has not returned yet.
//
// Packets are another matter, since their senders do not call Wake. The transport looks for them
// after whatever makes the next packet readable (arming an interrupt, ringing a bell), not
// before: a packet that arrives between a look and the arming would be seen by neither. Prepare
// comes before both, because a wait that Wake has ended already needs neither.
//
// # Close
//
// A wait holds a mutex from Prepare to Unlock. Close sets the transport's closed flag and calls
// [Sleeper.Stop], which makes the eventfd readable and then waits for the mutex. Whoever holds it
// began before the flag was set or sees the flag, so after Stop nobody sleeps and nobody will,
// and the descriptors can be closed. Wake may still be called, so the eventfd has a mutex of its
// own.
package poll
