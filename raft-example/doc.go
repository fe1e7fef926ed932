// Package raftexample holds no code. It tells the design of the replicated key-value
// store in the folders below it: an unmodified Raft (go.etcd.io/raft/v3) over the RPC
// library, as in section 7.1 of the eRPC paper (NSDI 2019).
//
// # Layers
//
//	kv        the state machine: commands, store, client sessions, snapshots. Pure
//	wal       records of a durable log as bytes, and the folder they are kept in
//	replica   RawNode + kv, driven by messages and explicit time. No I/O, no clock
//	node      a replica on an erpc.Rpc: handlers, sessions with peers, the disk
//	client    finds the leader, repeats with request ids, meets deadlines
//	raft-kv   the command
//	simtest   seeded clusters in the simulated network, histories checked by porcupine
//	hraft     another Raft, hashicorp/raft: a Transport for it
//
// # The fast path of a PUT, in memory
//
//	client            leader                         follower
//	  | -- request -->  | handler: propose, Ready        |
//	  |                 | -- request: MsgApp ----------> | handler: step, Ready, append
//	  |                 | <-- response: MsgAppResp ----- |
//	  |                 | continuation: step, commit     |
//	  | <-- response -- | Ready, apply                   |
//
// All of it happens inside the event loops: the handler of the PUT keeps its
// erpc.ReqHandle and returns, and the continuation that commits answers it. There is no
// goroutine and no channel in between. The two round trips are 4 packets one after the
// other; the paper's ratio of a replicated PUT to a plain RPC is 2.4.
//
// # Messages are RPCs
//
// Raft's messages are one-way. Here a message to a peer whose request is being handled
// leaves in the response of that request, every other one in a request of its own.
// So MsgApp and MsgAppResp, MsgHeartbeat and its answer, votes and their answers cost two
// packets. Raft takes any loss, delay and repetition of messages, so an RPC that fails
// is only reported (ReportUnreachable), never repeated.
//
// A MsgApp without entries that only tells a commit index waits, up to
// replica.Config.CommitDelay, for a message to ride on. That is one more delay to Raft.
//
// # One Ready at a time
//
// replica takes a Ready, gives its entries and hard state to the disk if there is one, and
// only then sends messages, applies and advances. Meanwhile everything that arrives is
// stepped, and the next Ready takes all of it: so fsync is batched by the time it takes, and
// nothing is acknowledged that is not durable. Without a disk the three steps follow
// each other at once. A node handles the first event of a pass of its loop at once, for
// latency, and those that follow together at the end of the pass, for throughput.
//
// # Exactly once
//
// A client opens a session through the log (its number is the index of that entry) and
// numbers its writes. The state machine keeps the last number and result of each
// session and answers a repetition from there. The table is bounded: of more than
// kv.MaxSessions the one whose last write is oldest in the log goes, on all replicas
// the same one, and its client gets kv.ErrExpired, nothing applied (the policy of the Raft
// dissertation, section 6.3). Snapshots hold the table.
//
// # Reads
//
// GET goes to the leader, which confirms by a round of heartbeats that it still is
// the leader (ReadIndex, dissertation section 6.4; no lease, so clocks do not matter).
// All reads that wait share one round.
//
// # Log identity
//
// A log has a random identity, made with it. Every message carries its sender's,
// and a replica that knows another one of the same sender refuses the message
// (node.ErrForeignLog): a replica that lost its log would vote twice in one term. So a replica
// without a disk that died comes back as a new member, under a new number.
//
// # Snapshots and compaction
//
// The log keeps Config.KeepEntries applied entries in memory. A follower that needs an older
// one gets a snapshot, in chunks, each one RPC. The store is 1024 shards; a snapshot is
// written shard after shard between passes of the loop, and a shard that is about to change
// first of all, so that no pass takes long. On disk, a snapshot and a new log that
// begins behind it take the place of the old ones every Config.SnapshotEvery entries.
package raftexample
