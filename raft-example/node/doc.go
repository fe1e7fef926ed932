// Package node runs a replica on an erpc.Rpc: the handlers, the sessions with peers, the
// transfer of snapshots, the disk. A Node belongs to the thread of its Rpc.
//
// The loop's owner calls [Node.Poll] after each pass; [Node.Run] does both. On one core, one
// goroutine can step several nodes in turn; see [Turn].
//
// # Map
//
//	owns       a replica, its handlers, its disk
//	called by  raft-kv, or another program that runs the loop
//	never      an entry is acknowledged before it is durable
//
// # Requests
//
//	TypeRaft    messages to a peer; answered with the messages to the sender
//	TypeSnap    a piece of a snapshot
//	TypeKV      a command of package kv
//	TypeStatus  a replica.Status as JSON
//	TypeAdmin   a change of membership or of the leader
//	TypeEcho    gives back what it got: the plain RPC to compare with
//	TypeMembers the addresses of all members, see Members
//
// Requests of TypeRaft and TypeSnap, and their answers, begin with a header of 40 bytes:
//
//	0 verdict u64 · 8 cluster · 16 from · 24 to · 32 the sender's log identity
package node
