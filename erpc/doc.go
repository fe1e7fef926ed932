// Package erpc is a general and fast RPC library over datagrams, after eRPC
// ("Datacenter RPCs can be General and Fast", NSDI 2019).
//
// # The two ways in
//
// [Client] and [Server] are for goroutines: Client.Call from anywhere, with a
// context; Server handlers that may block. Start there.
//
// [Nexus] and [Rpc] are the event loop underneath: no allocation, no lock, no
// goroutine switch per RPC. One thread owns an Rpc and runs its loop; everything
// about it happens there.
//
// # Nouns
//
//	Nexus         one per process and service: handlers, background workers, config
//	Rpc           one per thread: a transport, its sessions, an event loop
//	Session       one end of a conversation between two Rpcs, client's or server's
//	Slot          place for one request in flight in a session (8 by default)
//	MsgBuffer     memory for one message, off the Go heap
//	Handler       serves requests of one type, in the loop or in the background
//	Continuation  is called when an RPC ends
//	Transport     moves bursts of datagrams; see package transport
//
// # Guarantees
//
// A handler runs at most once for a request. Every RPC ends exactly once: with its
// response, or with an error that errors.Is can name. When the error is
// [ErrPeerLost], [ErrPeerRestarted], [ErrDeadline], [ErrCancelled] or [ErrClosed]
// the server may or may not have run the request, and the library does not repeat it.
// A peer that dies is noticed within Config.Timing.FailureTimeout.
//
// # Ownership of buffers
//
// The application owns a MsgBuffer that it allocated until it gives it away: with
// EnqueueRequest until the continuation, with Respond for good. Meanwhile it must
// not touch it; builds with the tag "invariants" catch that. The request that a handler
// of Server.Handle gets is the handler's own, on the Go heap. That of Server.HandleBorrowed,
// and ReqHandle.Data, belong to the library and are read-only.
//
// # Threads
//
// Only the goroutine that runs the loop may use an Rpc. Others get
// [ErrWrongThread] while the loop is inside; they use Rpc.Post. A handler of mode
// Background, and only it, may use its ReqHandle in another goroutine.
package erpc
