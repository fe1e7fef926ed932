// Package herd serves key-value requests by the design of HERD ("Using RDMA Efficiently for
// Key-Value Services", SIGCOMM 2014, section 4): clients write requests into memory that the server
// polls, and answers come as datagrams. One round trip serves any request. This package is the part
// without I/O and without a clock; kv/herd/rdma drives queue pairs with it.
//
// # Map
//
//	owns       slots, sequence numbers and answers of one partition or client
//	called by  kv/herd/rdma
//	never      a request runs twice; it does I/O or reads a clock
//
// # Slots
//
// Each client has a chunk of the server's memory of its own, with a window of slots for each
// partition, one behind the other. A client has one request at most in a slot. A [Part] is the
// server's side of one partition: its owner sweeps over the slots of all clients, runs what it
// found as one batch, and posts all answers at once. A [Window] is a client.
//
// # Frames
//
// Requests and answers are frames. Numbers are little-endian, as are the machines.
//
//	body    a request or a response of package message, padded by zeros to 8 bytes
//	head    checksum (32 bits), length of the body (16), kind (8), zero (8)
//	mark    try (8 bits), sequence number (56)
//
// A request has the type of package message as its kind; an answer has 0, or a [Refusal]. In a slot
// a frame lies at the end, so that its mark is the last word there, and a write carries no more
// than the frame. The checksum (CRC-32C) covers the body and all of head and mark but the try.
//
// # Sequence numbers
//
// HERD polls for a key hash that is not zero, which the server clears. Here the server compares the
// mark with the one it saw last, and clears nothing: so there is no key that is forbidden, and no
// moment at which a request can be overwritten unseen. A slot's sequence number grows with each
// request in it, from 1, and is never used again. Of a slot the server remembers the number of the
// last request and its answer:
//
//	number     the server
//	greater    runs the request
//	the same   repeats the answer: the client's try is another one
//	less       ignores it: a packet that was late
//
// So a request runs at most once, whatever the network loses, repeats or delays. A client repeats
// what has no answer, after a time that follows the round trips. When it gives up, the request may
// have run.
//
// # Clients are not trusted
//
// A client can write to its chunk at any time, also while the server reads. The server loads mark
// and head once each, copies the body once, and looks at the copy alone. A frame whose checksum is
// wrong is taken for one that is still being written: it is looked at again, a few times. Lengths,
// kinds and keys that cannot be are answered by a [Refusal] and counted.
package herd
