// Package flight is a flight recorder: the last datagrams that an event loop sent and received,
// with their times, in memory that does not grow.
//
// A [Ring] belongs to one loop. It keeps the first bytes of each datagram, and whole bundles, since
// the packets are inside; an older one makes room for a newer one. Recording is two copies and no
// allocation. A dump gives the ring away whole and the loop goes on with an empty one, so it does
// not wait for a copy. A [Dump] says how many datagrams were lost to the ring's size.
//
// A record holds headers and the payload of small messages. Sealed datagrams are kept as they are
// outside: they show sizes, times, counters and the index of the association, and no calls.
//
// # Map
//
//	owns       a ring of one loop's datagrams, its file, and the calls in it
//	called by  package erpc in the loop; debug, erpc trace and transport/pcap read dumps
//	never      it grows, allocates while recording, or hides what is missing
package flight
