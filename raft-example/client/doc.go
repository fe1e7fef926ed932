// Package client talks to a replicated store. [Client] lives in the event loop of an
// erpc.Rpc; [Blocking] wraps one for goroutines.
//
// It finds the leader by asking any replica, follows its hints, and repeats a request that
// got no answer or that no leader took, until the request's deadline. A write has a
// session and a number, so that it is applied once however often it is sent. Reads are
// simply asked again.
//
// When a write ends with ErrDeadline its outcome is unknown: it may be applied now, later, or
// never. It cannot be applied after a later write of the same session.
package client
