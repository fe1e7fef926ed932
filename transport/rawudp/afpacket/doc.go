// Package afpacket is the raw UDP transport over Linux packet sockets (packet(7)): it runs on
// every Ethernet interface, virtual ones too, and takes the way of a packet through the
// kernel's IP stack out of the round trip. Package rawudp writes and reads the frames.
//
// # Map
//
//	owns       packet sockets and their rings, the guard program
//	called by  transport/rawudp
//	never      the kernel answers frames that the endpoint took
//
// # How it is fast
//
// Received frames lie in a ring that is mapped into the process (TPACKET_V2): polling
// it takes no system call. Frames are sent with sendmmsg, several in a call. A frame may be a
// train: many packets that the kernel keeps together (PACKET_VNET_HDR with UDP GSO) until a link
// that cannot take them, and over veth up to the receiver.
//
// # What else is on the machine
//
// The socket sees copies of the interface's frames; a filter lets only those of its own UDP port
// in. The kernel's IP stack sees them, too, and is kept from answering in two ways. A kernel UDP
// socket is bound to the address and port, so that they are reserved and no ICMP "port unreachable"
// is sent; its filter drops everything. And the guard, an eBPF program on the interface's ingress
// (tcx), drops these frames behind the packet socket, which saves half of the time. The kernel
// removes the guard when the process ends, however it ends. All else on the interface is left
// alone: ARP, other ports, fragments.
//
// Frames to an address of the same machine never leave it, and so never arrive here: use
// package shm or udp there.
//
// # Needs
//
// CAP_NET_RAW for the socket, CAP_NET_ADMIN and CAP_BPF for the guard, Linux 5.0 for the whole, 6.2
// for trains,
// 6.6 for the guard. Without the latter two it works, slower.
package afpacket
