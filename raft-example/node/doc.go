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
//	TypeHello   what a member says of itself, see Hello
//	TypeBackup  a piece of the state, see BackupRequest
//
// # Who speaks for a member
//
// Anybody may send requests. Those of TypeRaft and TypeSnap count only in a session that is a
// member's, by [Trust]: of the peers' role where packets are secure, else from the address that the
// member has in the log. A member's session is asked about with the first message in it, and again
// when members have changed. Sessions that this side dialled lead to a member's address.
//
//	member    an id of the log's membership, and its address there
//	guest     an address that this replica has reason to take for a member's, though no change that
//	          it has applied says so: it may lead already while this replica lags behind
//	stranger  all else. It is refused, and changes nothing that outlives its request
//
// A guest is the address of a change in the log that is not applied: a leader put it there, and the
// new member may need this replica's vote to say that it is committed. Or it is in a list of
// members as of a later index than what this replica has applied, by the word of one that it asked
// itself when a stranger spoke: a member whose last header had the log that the disk knows of it,
// or what answers at an address of Config.Resolve. What strangers say of themselves counts nothing.
// So a replica that was away while all members that it knew were replaced is alone until the
// operator names one of today's. When that index is applied guests are none any more, and the log
// decides.
//
// By role it needs no such word: who has the members' key or certificate speaks from anywhere. Only
// to a replica that follows another leader, and has no change of members that is not applied, it is
// a stranger all the same if the log does not have it: so one that was removed hears of it.
//
// A replica without any members, one that waits to be added, takes guests from everywhere.
//
// Requests of TypeAdmin and TypeBackup are heard from all, or from those of Config.Admins alone, a
// [Role] that members do not have by theirs.
//
// That this replica's log is not the one that others know, it believes only in an answer of a
// member that it has asked itself. A request that says so makes it ask.
//
// # Members that go together
//
// A member says [Hello] first in each session that it opens: formats, tick, lease and role. One
// that does not go with this one is refused by name on both sides, told once in the log and shown
// in the status; nothing of it counts. One that says nothing, of commit 4085675, is of format 0.
// Ticks and leases must be the same only as long as no log says them, see replica.Retime.
//
// The formats that a member says begin with the newest that its log has had: see "Versions" in
// package raftexample. An upgrade asks all members, those without a vote, too, for their Hello
// first.
//
// Requests of TypeRaft, TypeSnap and TypeHello, and their answers, begin with a header of 40 bytes:
//
//	0 verdict u64 · 8 cluster · 16 from · 24 to · 32 the sender's log identity
//
// # Changes that are checked
//
// The leader makes a change of membership, or hands over, when the members concerned have said who
// they are: see inquiry. A new member gets the log as a learner first.
package node
