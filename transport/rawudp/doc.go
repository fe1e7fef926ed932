// Package rawudp carries packets as UDP over raw Ethernet frames, past the kernel's IP
// stack. A peer sees ordinary UDP datagrams: it may be another rawudp endpoint on any
// device, or a plain socket.
//
// # Map
//
//	owns       Ethernet, IP and UDP headers, routes of peers
//	called by  erpc by the contract; below it a frame device
//	never      a frame leaves with a wrong checksum or to a neighbour that is not resolved
//
// # Parts
//
//   - [Codec] writes and reads the Ethernet, 802.1Q, IPv4, IPv6 and UDP headers, once
//     for all devices (IEEE 802.3, 802.1Q; RFC 791, 8200, 768). It does no I/O.
//   - [Device] moves frames, such as the one in package afpacket. A device
//     knows nothing of IP or UDP.
//   - [Network] shows what the kernel knows: the link's state, routes and neighbours.
//     Package link asks the kernel.
//   - [Conn] joins the three to a transport.Transport.
//
// # What an endpoint takes
//
// Only whole UDP datagrams to its own MAC and IP addresses and port, without IP
// options or extension headers, with sound lengths and checksums. All else is left to
// the kernel. The endpoint answers no ARP, no neighbour solicitation and no ICMP: the
// kernel does, since it has the address too.
//
// # What the network says
//
// ICMP errors that quote the endpoint's packets reach the kernel's UDP socket that reserves the
// port, where a device has one (Heedful). "Port unreachable" is passed on as a hint
// ([Conn.Hints]), so a server whose process was killed is noticed within milliseconds, as over
// package udp.
//
// # Trains
//
// Where the device can, consecutive packets of equal size to one peer leave as one
// frame that is cut up later or never ("GSO"), and come in as one. See package udp for
// the same over sockets.
//
// # Links that go away
//
// While the link is down packets are dropped, as on a cut cable. If that lasts longer
// than [Config.LinkGrace], or if the link was deleted, every call returns a
// [*LinkError] that names the link. It is no final state: when the link is back, or a
// new one of the same name, the calls work again.
package rawudp
