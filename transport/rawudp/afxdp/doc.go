// Package afxdp is the raw UDP transport over Linux XDP sockets (the kernel's
// Documentation/networking/af_xdp.rst): frames go between the link's driver and memory of this
// process through rings, past all of the kernel's network stack. Package rawudp writes and reads
// the frames.
//
// # Map
//
//	owns       XDP sockets, their memory, the XDP program of an interface
//	called by  transport/rawudp
//	never      a frame of other programs on the interface is kept
//
// # How it is fast
//
// Received frames lie in memory that is shared with the kernel, and are handed on from there:
// nothing is copied between the ring and the handler. Polling takes no system call; neither does
// sending where the driver reads the memory itself (zero copy), as those of many network cards do.
// On other links, virtual ones too, the kernel copies each frame once, and a burst is sent with one
// call.
//
// # Steering
//
// A small program on the link (XDP) looks up the destination address and port of each frame: whole
// UDP datagrams to an endpoint go to its socket on the queue that they came in by, and all else
// goes on to the kernel: ARP, other ports, fragments, 802.1Q tags. The kernel removes the program
// when the process ends, however it ends. A kernel UDP socket is bound to the endpoint's address
// and port, so that they are reserved; what gets there, it drops.
//
// A link takes one program. The endpoints of a process share it, and the packet memory of each
// queue, up to Config.Endpoints. Another process cannot have the link meanwhile. A process
// that meets another one's program gets a *rawudp.LinkError that matches ErrBusy.
//
// # Limits
//
//   - Packets are not larger than 3776 bytes over IPv4 and 3756 over IPv6.
//   - There are no trains: each frame is one packet.
//   - On a veth pair a peer's kernel leaves checksums, and the cutting up of trains, to hardware
//     that is not there. In native mode it cuts them up, and incomplete checksums are seen for what
//     they are. In generic mode such frames are rejected as damaged, or left to the kernel if they
//     are large: switch the peer's offload off there (ethtool -K veth0 tx off). Peers that use this
//     package leave nothing to hardware.
//   - An 802.1Q tag that was taken out of a frame cannot be seen: datagrams of a VLAN to the same
//     address and port as an endpoint's get to it.
//   - While an endpoint does not receive, it keeps no other of the process from receiving.
//
// # Needs
//
// CAP_NET_RAW for the sockets, CAP_NET_ADMIN and CAP_BPF for the program, CAP_IPC_LOCK or a
// sufficient RLIMIT_MEMLOCK for the memory, Linux 5.18.
package afxdp
