// Package rdma drives queue pairs with the protocol of package herd: a [Server] with a loop for
// each partition, and a [Client] for the thread of an event loop. It needs what internal/verbs
// needs; Listen and Dial say what is missing.
//
// # Map
//
//	owns       queue pairs, regions and loops
//	called by  cmd/erpc-kv
//	never      a client writes outside of its own chunk
//
// # Designs
//
//	         requests                     answers                      packets for a request
//	herd     WRITE over UC, inline        SEND over UD                 2
//	send     SEND over UD                 SEND over UD                 2
//	write    WRITE over RC, inline        WRITE over RC                4, with acknowledgements
//
// HERD's is the first one. The second is its fallback for very many clients, as the server has no
// connected queue pair for each then. The third is for comparison: server-reply as pipelined as the
// others, in which the client polls memory too. It is for one partition.
//
// Requests are unsignaled but for one in 32, which takes those before it off the queue. A client
// posts what it started between two polls as one list, with one doorbell; the server posts the
// answers of one sweep so. Client and server have a UD queue pair for each loop, not for each peer.
//
// # Meeting
//
// A client connects over TCP. Both sides say one line of JSON: what their queue pairs, keys and
// sizes are. The connection stays open while the client lives; when it ends, or the client says
// more, the server forgets the client and frees its memory. So kill -9 of a client costs the server
// nothing that lasts.
//
// # Protection
//
// Each client has a protection domain, a memory region and a connected queue pair of its own at the
// server. So its key opens its own chunk and, even to somebody who guesses keys, no other's.
// Datagrams of design send are compared with the sender's queue pair.
//
// # Waiting
//
// A WRITE tells the receiver nothing, so the server's loops poll. After some empty sweeps they
// yield the core, and after some milliseconds they sleep for 50 us at a time. Soft-RoCE needs that:
// the kernel does its packets on the same cores.
package rdma
