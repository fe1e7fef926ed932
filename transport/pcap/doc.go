// Package pcap captures what any transport sends and receives, in a file that Wireshark,
// tcpdump and "erpc decode" open.
//
// A [Capture] writes packets to an io.Writer; [Capture.Wrap] decorates a transport so that
// its packets go there, too. Several transports of one process may share a Capture. A
// transport that is not wrapped pays nothing.
//
//	capture, err := pcap.Create("traffic.pcap", pcap.Config{})
//	...
//	rpc, err := nexus.NewRpc(capture.Wrap(conn))
//	...
//	err = errors.Join(rpc.Close(), capture.Close())
//
// # Map
//
//	owns       a capture file and the buffer before it
//	called by  commands and tests, around any transport
//	never      the traffic waits for the disk, unless Config.Block says so
//
// # What is in the file
//
// The classic pcap format with nanoseconds, link type Ethernet. The frame around each
// packet is made up, since a transport shows none, but made up so that tools can read it:
//
//	Ethernet  the captured endpoint is 02:65:72:70:63:01, all others 02:65:72:70:63:02; so
//	          "eth.src == 02:65:72:70:63:01" shows what was sent
//	IP        version 4 between two IPv4 addresses, else version 6; ECN is CE (RFC 3168) if
//	          the transport reported that mark, else not-ECT
//	UDP       ports and length, and a checksum that is right
//
// An endpoint that listens on all addresses appears with the unspecified address. Where
// one side has an IPv4 and the other an IPv6 address, the first is written IPv4-mapped.
//
// Addresses of other networks become unique local IPv6 addresses (RFC 4193) below
// fd65:7270:6300::/40. These are the discard-only addresses (100::/64, RFC 6666), which
// shared memory uses, and those whose port is wider than 16 bits, such as a queue pair
// number. The 24 bits after the prefix hold the scope XOR the high half of the port, the
// last 64 bits those of the address.
//
// A received packet is in the file before the receiver sees it, with the time when
// RxBurst returned. A sent packet carries the time before TxBurst and is in the file if
// the transport took it; what is too large or has no address, and so is never sent, is not.
// If several transports share a Capture, records of one moment may stand out of order.
//
// # Slow and broken writers
//
// Packets are gathered in memory, and a goroutine writes them. The memory is bounded
// (twice [Config.Buffer]): while the writer is too slow, packets are missing in the
// file, and [Counts] tells how many, unless [Config.Block] says that traffic is to wait.
// An error of the writer ends the capture and never the traffic; [Capture.Err] and
// [Capture.Close] report it.
package pcap
