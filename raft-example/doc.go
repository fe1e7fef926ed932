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
// In the module labs, raft/lab measures a PUT beside a plain RPC, and raft/simlab does so on the
// simulator's virtual cores.
//
// # The fast path of a PUT, in memory
//
//	client            leader                         follower
//	  | -- request -->  | handler: send the entry        |
//	  |                 | -- request: MsgApp ----------> | handler: answer
//	  |                 |    (propose, Ready, append)    |
//	  |                 | <-- response: MsgAppResp ----- |
//	  |                 | continuation: apply, answer    |    (step, Ready, append)
//	  | <-- response -- |    (step, commit, Ready)       |
//
// All of it happens inside the event loops: the handler of the PUT keeps its
// erpc.ReqHandle and returns, and the continuation that commits answers it. There is no
// goroutine and no channel in between. The two round trips are 4 packets one after the
// other; the paper's ratio of a replicated PUT to a plain RPC is 2.4.
//
// Raft does what is in parentheses when the packets are on their way. While it is at rest a replica
// knows what it will say, says it, and compares raft's messages with what it has said: see "Early
// messages" in package replica. A replica with a disk asks raft first.
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
// # The disk
//
// Without a disk, replica takes a Ready, appends, sends, applies and advances. With one, raft
// runs with asynchronous storage writes: each Ready names what is to be written and the
// messages that wait for that (answers that promise durability, votes). All other messages
// leave at once, so a leader sends heartbeats and a follower answers them while the disk is at
// work. One write is under way at a time and the next one takes all that came meanwhile: so
// fsync is batched by the time it takes, and nothing is acknowledged that is not durable.
// The time of a write does not count towards an election timeout while no leader is known. A
// disk that takes more than half an election timeout gets a warning once a minute, with the
// tick that would do: raft-kv tick makes it the cluster's. A leader applies what is committed when
// its own disk has it, too. If a write takes longer than an election timeout, and the others have
// committed what it holds, the leader hands over.
//
// A node handles the first event of a pass of its loop at once, for latency, and those that
// follow together at the end of the pass, for throughput. After a pass with more than
// node.Config.Gather events all wait for the end of the next one. Raft gets the proposals of a
// pass as one message, so each follower gets one with all their entries, and answers once. While
// more than four writes are on their way to a quorum, those that come meanwhile gather, and leave
// together when these are answered. A replica with a disk does not wait for that: its writes share
// what the disk does. After a round of many the next one waits for as many, 32 at most, up to
// replica.Config.GatherFor: the clients that were answered come again. So do reads, with a disk
// too.
//
// # Exactly once
//
// A client opens a session through the log (its number is the index of that entry) and
// numbers its writes. The state machine keeps the last number and result of each
// session and answers a repetition from there. The table is bounded by kv.MaxSessions. Of a
// full one, the oldest session that never wrote goes, or else the one whose last write is
// oldest, if that is more than kv.SessionIdle ago; if there is neither, no session is opened
// (kv.ErrFull). From version 1 on it is kv.CrowdedIdle, and a client that ends closes its sessions
// by an entry of the log. The time is that of the log: a leader adds it as an entry every ten
// seconds while the table is more than half full, so that all replicas decide the same (Raft
// dissertation, section 6.3). A write of a session that has gone is kv.Expired: nothing is applied
// by that attempt. If an earlier attempt had no answer the outcome is unknown (client.ErrUnknown).
// Snapshots hold the table.
//
// # Reads
//
// GET goes to the leader, which confirms by a round of heartbeats that it still is
// the leader (ReadIndex, dissertation section 6.4; clocks do not matter). One round is under way
// at a time, and all reads that come meanwhile share the next. It goes first to the voters that
// answered the last round first, as many as a quorum needs, and to the others only if it takes
// longer than a tenth of a tick.
//
// A read that may go anywhere (client.Config.Anywhere) is served by a follower, too: it asks the
// leader for such a round, and answers when it has applied what was committed then.
//
// With replica.Config.Lease the leader answers at once for a while after a round. That needs
// clocks of about the same rate, as the option says. Nothing else is assumed: a process may stop
// for any time, since the clock is read after the request came and before the answer is made.
//
// # The tick and the lease
//
// From version 2 on they change by an entry of the log (raft-kv tick), which counts for all from
// its index on; then what the flags of a member say does not count. A lease must never outlast what
// the followers wait that have begun it, so:
//
//	follower  its tick is the longest of the one that is applied and those in its log, from before it
//	          says that it has the entry. What it promises by answering heartbeats is nine such ticks
//	leader    it has no lease from the proposal of the entry until it has applied it. What it had
//	          ends at once: followers may apply a shorter tick before it
//	          Then a lease begins when so many voters as are a quorum answer a round that had the
//	          entry before that round began. Others, which lag behind or have just come back with
//	          whatever flags, may have any tick: their answers count for all else
//
// A follower with the entry that the leader has applied has that tick, or one of a later entry: of
// this leader, who has no lease by then, or of a later leader, who was elected when the lease was
// over. A member that starts has what its snapshot and its log say, and votes for nobody for ten
// such ticks. A member without any such entry goes with others by its flags, and is let in by those
// that have one, from whom it gets it. A new cluster from a backup, or by recover, begins with
// flags.
//
// # Members
//
// Who speaks for a member is told by the members' role where packets are secure, else by addresses:
// those of the log, of changes in it that are not applied, of what members tell, and what replicas
// at addresses of the operator's choice tell: see "Who speaks for a member" in package node.
//
// Members change one at a time (replica.Change), or any number at once by joint consensus
// (replica.Reconfigure). A vote is taken away by joint consensus in both cases, which only a leader
// that stays may end. A member that leaves keeps its address until the joint configuration is left.
// Until the others know that it has left, it answers candidates by the part of its log that counts
// (Replica.absolve): a member that went and had the longest log could stop them all. A change may
// be asked for again when its answer was lost: a change that is so already goes through the log
// once more, changes nothing, and the answer says so.
//
// # Versions
//
// Programs know a range of formats and write that of the cluster's version: of entries, snapshots
// and folders. So members go from one program to another and back, one at a time, while the cluster
// serves. When all members say that they know more, an operator raises the version by an entry of
// the log (raft-kv upgrade). Before that entry is written the folder's header has its format, so
// that an older program refuses the folder; from then on a member sends nothing to one that does
// not know the format, and takes nothing from it. Version 0 is what programs of commit 4085675
// write, which say nothing of formats.
//
// # Log identity
//
// A log has a random identity, made with it. Every message carries its sender's,
// and a replica that knows another one of the same sender refuses the message
// (node.ErrForeignLog): a replica that lost its log would vote twice in one term. So a replica
// without a disk that died comes back as a new member, under a new number. With a disk, the
// identity of a peer is durable before anything that it sends counts: a replica whose disk
// was wiped is recognised also when all start again.
//
// # Snapshots and compaction
//
// The log keeps Config.KeepEntries applied entries in memory. A follower that needs an older one
// gets a snapshot. The log is kept from there on until it follows, within bounds: else it would
// need another snapshot by then, again and again. On disk, a snapshot and a new log that begins
// behind it take the place of the old ones every Config.SnapshotEvery entries, or after
// Config.SnapshotBytes of them, but not before they take a quarter of the store in memory. The
// snapshot is written beside the old one while the log goes on; only the change-over is in order
// with what is saved.
//
// Nobody holds a snapshot as a whole:
//
//	kv       A store counts the bytes of its keys and values, so that a snapshot's size is known when
//	         it begins. A Saver gives out the next bytes when asked, a shard at a time. An item of a
//	         shard that is not out is noted before its first change, as it was: that is all that
//	         writes cost meanwhile, and no more than there were keys, and are. A Loader takes bytes
//	         as they come, and gives a Store at the end
//	wal      A file has the length in front and the checksum behind, so it is written and read in
//	         passing. It has the bytes of commit 4085675. A start reads it twice: no state is taken
//	         of a file that is not whole
//	replica  Raft sees metadata alone. Without a disk a follower gets the state as of the moment that
//	         raft asks, one follower at a time; with one, the file, which all may read
//	node     A snapshot is sent in pieces, each one RPC, read from the file a chunk ahead by a
//	         goroutine. The receiver reads pieces as they come, in order, and with a disk answers
//	         each when it is written, so that its disk sets the pace. Raft hears of a snapshot when
//	         all is read and durable. There is one receipt at a time; a new one takes the place of
//	         one whose sender goes on no more
//
// A receiver has its old store until the new one is read, so one that lags behind takes up to twice
// the memory, and one that joins takes it once. Members of commit 4085675 take at most 2 GiB, and
// refuse a larger snapshot; so may a folder of format 0 that is larger not be read by them.
// raft-kv's TestBig measures memory and pauses from outside: make raft-big has a gibibyte.
package raftexample
