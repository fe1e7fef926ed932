// Package ud carries packets over Unreliable Datagram queue pairs of InfiniBand and RoCE
// adapters, as the paper's own cluster did (eRPC, section 4). It needs Linux, a build with
// package internal/verbs in full, libibverbs at run time and a device; what is missing
// [Listen] says, with an error that matches transport.ErrUnsupported.
//
// # Map
//
//	owns       queue pairs, registered memory, and the socket at which endpoints meet
//	called by  erpc by the contract
//	never      memory is given back while the adapter may write to it
//
// # Addresses, and how endpoints meet
//
// A datagram needs more than an IP address and a port: the peer's GID or LID, the number of its
// queue pair and its key. An address of this transport is nevertheless "host:port": that
// of a UDP socket which each endpoint has beside its queue pair, for meeting only. It tells
// peers where the queue pair is. So addresses are chosen, written and resolved as in
// package udp, and a server that restarts on its port is found again.
//
// [Conn.Resolve] sends a query from a socket of its own until there is an answer; the first
// packet to an address that was never resolved sends one, too, and is dropped. Query and answer
// are cards of 56 bytes, little-endian:
//
//	offset  bytes
//	0       8      "erpc-ud1", the last digit being the version
//	8       1      kind: 1 query, 2 answer, 3 refusal, 4 probe: a query that introduces nobody
//	9       1      link layer: 1 InfiniBand, 2 Ethernet
//	10      1      kind of GID: 1 RoCE v1, 2 RoCE v2 with IPv4, 3 with IPv6, 0 InfiniBand
//	11      1      refusal: reason
//	12      2      LID
//	14      2      UDP port of the sender's meeting socket
//	16      16     GID
//	32      4      number of the queue pair
//	36      4      its key
//	40      4      MTU in bytes
//	44      4      zero
//	48      8      number of the query, which the answer repeats
//
// A query introduces its sender as well: the receiver makes the address handle before it
// answers, so when the first packet comes it knows whom from. Packets from anyone who is not
// introduced are dropped and counted ([Conn.Rejects]), and the random key keeps away packets that
// are for an earlier owner of the queue pair's number. An address that is known with another
// queue pair changes hands only when the socket at that address itself answers a probe.
// Both sides must be of one link layer and kind of GID, else the answer is a refusal. The MTU of
// a peer is the smaller one of both.
//
// A peer that has not answered for 100 ms while packets went to it is asked again, beside them: if
// it restarted on its port it has another queue pair, which finds out what the packets are about.
//
// The table of peers is limited ([Config.MaxPeers]); the one that was silent longest leaves first.
// Peers on the same host share an address handle.
//
// # Receiving
//
// A ring of buffers is posted, each with 40 bytes in front for the global route header (GRH), whose
// source GID together with the queue pair number names the sender. Over RoCE v2 with IPv4 the
// last 20 of them are the IPv4 header and the others undefined (RoCEv2 annex A17). The ECN field
// there says whether a switch marked the packet. Packets are handed out where they arrived; their
// buffers are posted again, many at once, after the next RxBurst.
//
// # Sending
//
// Packets that the adapter takes inline, and those in memory it does not know, are copied
// into a ring of send buffers; the adapter reads larger ones where they are, if their memory
// was registered ([Conn.Register]). One call posts a burst. Only every so many requests are
// signaled, that is complete visibly; that takes all before them off the queue. [Conn.Flush]
// (eRPC, section 4.2.2) posts a signaled datagram without bytes to the own queue pair and waits for
// its completion, after which the adapter refers to no buffer. It is for rare events only.
//
// # Sleeping
//
// Wait arms the completion queue, looks at it once more and sleeps on the completion
// channel, an eventfd for Wake, the device's asynchronous events, and the device's node in /dev,
// since some drivers announce their removal in no other way. An endpoint that spins arms nothing,
// and looks after the device every few thousand polls.
//
// # Failures
//
// Errors of the configuration are a [*ConfigError] around one of the errors below, those of
// meeting a [*PeerError]. When the device goes away, or its GID, calls return a
// [*DeviceError]; Close then frees what holds up the removal. A queue pair that fell into an
// error state is reset and used on: what was in its queues is lost, as on a lossy network.
package ud
