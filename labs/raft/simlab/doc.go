// Package simlab runs the replicated store on the virtual cores of the simulated network, and
// measures there what package lab measures on real ones: a PUT beside a plain RPC, by one client
// with one request at a time (eRPC paper, section 7.1). Each replica, the client and the server of
// plain RPCs have a core of their own, which four machines have and one of two cores has not.
//
// Replicas, client and protocol are the real ones; time is that of a [Model]: of a pass of an event
// loop, of a packet, and of Raft's steps on the way of a PUT. The network's delay is chosen so that
// a plain RPC takes the round trip that is asked for.
//
// # Map
//
//	owns       a store on virtual cores
//	called by  labs/cmd/raft-bench
//	never      it reads a clock
//
// # The arithmetic
//
// A PUT is a round trip from the client to the leader, one from the leader to a follower inside it,
// and Raft's work in between:
//
//	PUT = 2 RPC + propose + append + ack + answer
//
// So PUT / RPC is 2 + Raft / RPC: with Raft's work fixed it falls towards 2 as round trips grow.
// [Point.Expected] is that, and [Run] shows whether the store does as much: further round trips,
// or work that could have followed the packets, would show.
package simlab
