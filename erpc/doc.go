// Package erpc is a fast RPC library over datagrams, after eRPC ("Datacenter RPCs can be General
// and Fast", NSDI 2019). A program that serves, and one that calls it:
//
//	server, err := erpc.NewServer(erpc.Config{})
//	err = server.Handle(1, fn) // func(context.Context, []byte) ([]byte, error)
//	err = server.Serve(conn)   // of udp.Listen("0.0.0.0:31850", udp.Config{})
//
//	client, err := erpc.Dial(ctx, conn, "server:31850", erpc.Config{})
//	answer, err := client.Call(ctx, 1, request) // from any goroutine
//
// [Client] and [Server] are for goroutines: start there. Clients share a socket and a goroutine, by
// Dial where nothing tells them apart, or on a [Loop] of one's own; a [Pool] calls several servers.
// [Nexus] and [Rpc] are the event loop underneath: no allocation, lock or goroutine switch per
// call, and one thread that owns it.
//
// Contexts must not be nil: as in package net, a nil one panics.
//
// A handler runs at most once for a request. Every call ends exactly once: with its response or
// with an error that errors.Is can name. One that matches [ErrNotRun] says that the handler did not
// run; after other errors that no handler sent it may have run. The library repeats what certainly
// never ran, and nothing else. A peer that dies is noticed within Config.Timing.FailureTimeout.
//
// # Map
//
//	owns       event loops, the engine in each, calls, background requests,
//	           memory
//	called by  applications
//	never      a handler runs twice; a call ends twice or never; a packet makes
//	           it panic; the hot path allocates, locks or blocks
//
// # Nouns
//
//	Nexus         one per process and service: handlers, workers, config
//	Rpc           one per thread: a transport, its sessions, an event loop
//	Session       one end of a conversation between two Rpcs
//	Slot          place for one request in flight in a session (8 by default)
//	MsgBuffer     memory for one message, off the Go heap, with one owner
//	Handler       serves requests of one type, in the loop or in the background
//	BatchHandler  serves all requests of one type in a receive burst
//	Continuation  is called when a call ends
//	Transport     moves bursts of datagrams; see package transport
package erpc
