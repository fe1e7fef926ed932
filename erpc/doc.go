// Package erpc is a general and fast RPC library over datagrams, after eRPC
// ("Datacenter RPCs can be General and Fast", NSDI 2019).
//
// # Map
//
//	owns       the event loop, the engine in it, sessions by number, calls, shares, memory
//	called by  applications
//	never      a handler runs twice; a call ends twice or never; a packet makes it panic; the
//	           hot path allocates, locks or blocks
//
// # The two ways in
//
// [Client] and [Server] are for goroutines: Client.Call from anywhere, with a
// context; Server handlers that may block. Start there. Clients of many servers share
// the event loop of a [Loop]. A [Pool] calls several servers that do the same.
//
// [Nexus] and [Rpc] are the event loop underneath: no allocation, no lock, no
// goroutine switch per RPC. One thread owns an Rpc and runs its loop; everything
// about it happens there.
//
// # Nouns
//
//	Nexus         one per process and service: handlers, background workers, config
//	Rpc           one per thread: a transport, its sessions, an event loop
//	Loop          an event loop that Clients share: one socket and one goroutine for all
//	Pool          several servers: which ones are ready, and which one gets a call
//	Session       one end of a conversation between two Rpcs, client's or server's
//	Slot          place for one request in flight in a session (8 by default)
//	MsgBuffer     memory for one message, off the Go heap
//	Handler       serves requests of one type, in the loop or in the background
//	BatchHandler  serves all requests of one type in a receive burst, in the loop
//	Continuation  is called when an RPC ends
//	Transport     moves bursts of datagrams; see package transport
//
// # Guarantees
//
// A handler runs at most once for a request. Every RPC ends exactly once: with its
// response, or with an error that errors.Is can name. When the error matches [ErrNotRun] the
// handler certainly did not run. When it is another one that no handler sent ([ErrPeerLost],
// [ErrPeerRestarted], [ErrPeerClosed], [ErrDeadline], [ErrCancelled] or [ErrClosed]) the server may
// or may not have run the request. The library repeats what a Client called and what never ran,
// and nothing else. A peer that dies is noticed within Config.Timing.FailureTimeout.
//
// # Ownership of buffers
//
// The application owns a MsgBuffer that it allocated until it gives it away: with
// EnqueueRequest until the continuation, with Respond for good. Meanwhile it must
// not touch it; builds with the tag "invariants" catch that. The request that a handler
// of Server.Handle gets is the handler's own, on the Go heap. That of Server.HandleBorrowed,
// and ReqHandle.Data, belong to the library and are read-only.
//
// # Handlers by the burst
//
// A handler of [Nexus.RegisterBatch] or Server.HandleBatch gets the requests of its type that came
// in one receive burst, of one or many sessions, in one call: up to MaxBatch of them, with their
// data still in the receive ring. It is for lookups: it can start the memory accesses of all
// requests before it needs the first one. A batch ends at MaxBatch requests, at the end of the
// burst, and before packets leave in the middle of the burst; nothing waits for company. Requests
// that the handler does not answer before it returns are copied out of the ring; they can be
// answered later.
//
// # Timers
//
// [Rpc.AfterFunc] calls a function in the loop at some time, and the loop wakes up for it if it
// sleeps. With Timer.Reset it is a ticker. In a simulation Rpc.NextWake knows of it.
//
// # Threads
//
// Only the goroutine that runs the loop may use an Rpc. Others get
// [ErrWrongThread] while the loop is inside; they use Rpc.Post. A handler of mode
// Background, and only it, may use its ReqHandle in another goroutine.
package erpc
