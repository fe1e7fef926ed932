// Package replica is one member of a replicated store: raft.RawNode as it is, with the
// state machine of package kv. It does no I/O and reads no clock: messages, requests and
// the time come in by calls, and what is to be sent, made durable or answered goes out
// through a [Host]. So the simulator and a real network run the same code.
//
// A Replica belongs to one goroutine. Step, Propose, Read and the rest only change state;
// [Replica.Quick] and [Replica.Process] then do what is to be done: see "The disk" in the
// documentation of package raftexample.
//
// # Map
//
//	owns       RawNode and the state machine
//	called by  node and simtest
//	never      it does I/O or reads a clock
//
// # Messages as bytes
//
// Between replicas a message is
//
//	0 type u8 · 1 reject u8 · 2 context size u16 · 4 entries u32 · 8 to · 16 from · 24 term
//	32 log term · 40 index · 48 commit · 56 vote · 64 reject hint · 72 context
//	entries, from index+1 on: type u8 · zero [3] · size u32 · term u64 · data
//
// The data of a normal entry is one command, or several writes, one behind the other: writes that
// are given to raft together share entries of up to 2 KiB, since raft, the log and the messages
// have a price for each entry. Each write has its own answer. An Open is alone, because the index
// of its entry is the session's number.
//
// MsgSnap has another way, package node cuts it up. Messages that a peer must not send
// are ErrMessage.
//
// # Early messages
//
// A replica without a disk says what raft will say before raft has computed it, and has raft do
// the same when the packets are on their way. It does so only while raft is at rest, when it has
// got all that came and has handed out all that it has to say. A leader sends its proposals to the
// followers in steady replication (dissertation, section 10.2.1), a follower answers entries that
// continue its log, and a leader applies what a majority has (section 3.6.2). Else, and for reads,
// transfers, changes of membership and replicas with a disk, raft is asked first. Proposals that
// gather are not sent; what came before them may be committed early all the same.
//
// Raft hears of nothing else in between, so it appends the same entries at the same indexes and
// terms. Its messages are compared with the early ones in all fields, and left out. A replica whose
// raft differs ends with ErrEarly: it must never send another entry of that index and term.
//
// A replica that ends, or whose process dies, between an early message and raft's has lost no more
// than its memory, as one that dies later. It does not come back under its number: see "Log
// identity" in the documentation of package raftexample. An entry that is applied early is on a
// majority in the leader's term, so it is committed, whoever leads then.
package replica
