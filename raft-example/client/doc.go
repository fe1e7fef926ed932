// Package client talks to a replicated store. [Client] lives in the event loop of an
// erpc.Rpc; [Blocking] wraps one for goroutines.
//
// It finds the leader by asking any replica, fetches the addresses of all members again and
// again, follows hints, and repeats a request that got no answer or that no leader took, until
// the request's deadline. A write has a session and a number, so that it is applied once
// however often it is sent. Reads are simply asked again.
//
// When a write ends with ErrUnknown one of its attempts had no answer: it may be applied
// now, later, or never. It cannot be applied after a later write of the same session. The
// session may have expired meanwhile: that is ErrUnknown, too. With another error, ErrDeadline
// alone among them, nothing was applied.
//
// A session is kept until the client ends, or for kv.SessionIdle after its last write; in a store
// of version 1 that has no room for others, for kv.CrowdedIdle. If it has gone all the same and no
// attempt of a write can have been applied, the client opens another one.
//
// A client has Config.Sessions of them at most, and further writes wait for one that is free. When
// the store has none left (kv.ErrFull), writes wait for those that the client has. Only a client
// without any asks again and again.
//
// A client that knows one member survives the replacement of all, if it hears of the cluster
// every Config.Refresh; or later, if one that has left still runs and knows others. When no server
// that it knows answers, or none leads to the leader for four attempts' time, it goes back to
// Config.Servers and Config.Resolver. A program that ends can keep what Config.Members told it.
//
// # Map
//
//	owns       an application's sessions with the store
//	called by  raft-kv and applications
//	never      a write is applied twice
package client
