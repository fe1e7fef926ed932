// Package rfp makes remote procedure calls whose results the client fetches: it writes a request
// into the server's memory, the server leaves the result in its own, and the client reads it there
// with one-sided operations. It follows RF-RPC (TPDS) and its forerunner RFP; sections below are
// those of RF-RPC. The papers' claim rests on adapters that serve operations faster than they issue
// them, where issuing waits for each. Without that asymmetry fetching has no advantage over
// replies: docs/remote-fetching.md has the figures of both on modelled adapters.
//
// # Map
//
//	owns       messages in memory that two sides share, and their retries
//	called by  applications, rfp/jakiro and labs/cmd/erpc-rfp
//	never      a call ends twice or runs twice; a peer's bytes are trusted
//
// # Nouns
//
// A [Client] makes calls over one link of package onesided, a [Server] answers those of many. Calls
// travel in messages; a message has one call, or a batch of them. A link has slots: each holds a
// message under way. F is the size of the first READ of a response, R how many READs may find
// nothing (section 3.2). A type's mode says whether the client fetches or the server replies.
//
// # Memory
//
//	region          owner    the peer   holds
//	requests        server   writes     a request per slot; a word per slot: "reply to it"
//	responses       server   reads      64 bytes about the server; a response per slot
//	replies         client   writes     a response per slot
//	private         client   -          what is written from and read into
//
// A message is
//
//	word 0   sequence (32 bits), size of the entries in bytes (24), flags (8)
//	word 1   entries (16), batch size wished or process time in units of 64 ns (16), 0 (32)
//	         entries: size (24 bits), type or status (8), bytes, each from a multiple of 4 on
//	tail     made of the sequence, a number that only the two sides know, and perhaps a CRC-32C
//
// The sequence grows by one with each message of a slot and wraps; nothing is ever cleared. A
// reader takes a message if its first word has the sequence that is due and its tail belongs to
// that. The writer stores the first word last, so a READ that sees two moments of it is noticed
// whichever half came first: a new first word means that all was written when it was read, and a
// tail of the same message that all before it was. A message that takes two READs is read again
// behind its first word, since the tail vouches for one READ only. Memory that is placed in more
// than two pieces in any order needs Checksum.
//
// # The mode
//
// Each type begins with fetching. Messages of a type in reply mode carry a flag. The server always
// leaves the result in its own memory, and then writes it to the client too if the message has the
// flag, or if the slot's word names its sequence. A client that wants to change the mode of a
// message under way writes that word and posts a READ behind it. The server stores the result
// before it looks at the word, so either it sees the word and replies, or the READ finds the
// result.
//
// Where the server can store to the client's memory itself (shared memory), a reply is a copy in
// place of a WRITE. The handler works in the server's own memory all the same: a client may change
// its replies at any time.
//
// With Paper the mode changes as in section 3.2: to replies after two messages in a row that missed
// more than R times, and back when a process time is short. Otherwise the reported process time
// decides both ways, READs go when the result is expected, and R bounds the READs of one message.
//
// # What is promised
//
// Each call ends exactly once. A handler runs at most once per call: the server takes a sequence
// once, and nothing is sent twice. When a link ends, all its calls end with the link's error; calls
// without a deadline that had been sent may have run. A server's life has a number, its epoch,
// which the client learns first; a client can insist on one.
//
// A peer can harm only itself. The server copies a message once and then checks all of it. A
// message that no client sends ends that link and no other.
//
// # Threads
//
// A client and a server belong to one goroutine each, which polls them. Time is an argument, or a
// clock that the caller gives. Nothing here starts a goroutine, or sleeps.
//
// So they join the loop of an erpc.Rpc by being polled beside it: a loop that calls RunOnce calls
// Poll too, and may sleep until the earlier NextWake where nothing can come by itself. Rpc has no
// hook for that. One would cost each pass of each Rpc a look, and the order of polling, which says
// what waits for what, is the program's affair.
package rfp
