// Package udp carries packets over the kernel's UDP sockets. It is the default
// transport: it needs no privileges and works over IPv4 and IPv6.
//
// # Map
//
//	owns       a UDP socket, its rings of buffers, trains; a few further sockets, if they are needed
//	called by  erpc by the contract
//	never      a packet is joined or cut; it waits inside RxBurst or TxBurst
//
// # How it is fast on Linux
//
// One system call moves many packets. Consecutive packets of equal size to one
// peer leave as a train: a single datagram that the kernel cuts up as late as it
// can (UDP_SEGMENT, "GSO"), and that it hands over whole to a receiver that
// asked for it (UDP_GRO). A shorter packet may be the last of a train, unless one of both is a
// management packet: a router that looks at trains as a whole drops all of one for its longest
// packet, and pings find out what size gets through. Several trains go out with one sendmmsg and
// come in with one recvmmsg. Where packets are few, each takes one sendto or recvmsg, so that a
// lone request pays for none of this.
//
// The socket never blocks in TxBurst and RxBurst, so those calls skip the Go
// scheduler. Wait does block, in ppoll, and frees its processor meanwhile.
//
// # Sockets on all addresses
//
// A socket on ":31850" or "0.0.0.0:31850" receives packets for every address of the machine, and a
// peer takes an answer only from the address that it asked. On Linux such a socket reads with each
// message which address it was sent to (IP_PKTINFO of ip(7), IPV6_PKTINFO of RFC 3542, section 6)
// and remembers the last one for each peer; whatever it sends to that peer leaves from there. For a
// link-local IPv6 address the interface is remembered too; otherwise routes choose it. Messages to
// broadcast and multicast addresses change nothing. A socket on one address does none of this, and
// is faster by a few tenths of a microsecond per message, sent or received.
//
// The memory has room for 8192 peers and never grows. A peer that is not in it gets packets from
// the address that the kernel chooses, the first one of the route to it in general; it ignores
// them if it asked another, repeats what it asked, and is remembered again. An answer that leaves
// before the next RxBurst is almost never concerned. Peers share 2048 sets of four by a secret
// hash. A newcomer to a full set replaces the peer heard least, and makes the peers of the set
// count less, one at a time. So a peer that was heard often is lost only if it is silent while more
// than 50 newcomers come to its set: about 100,000 packets from as many forged sources, if each
// source sends once. Sources that send as often as the peer displace it like honest ones.
//
// If the kernel refuses the remembered address, because it was taken off the machine, the packet
// leaves from the address that the kernel chooses, and the entry is dropped. It is dropped as well
// when a session opens with a peer that has not been heard for some time, a second at least: a
// client whose routes have changed is not held to its old address when it dials again.
//
// The last message counts because a client may use two addresses of the server in turn with one
// socket. If it uses them at the same time, some answers leave from the wrong one of the two and
// come after a repetition. Nothing here is authenticated: who can forge a client's address and
// port, and reaches a second address of the server, can redirect the source of what the server
// sends to that client, until the client's next packet. The client misses these answers and asks
// again. To stop a session, one forged packet has to come between each request and its answer;
// data is neither read nor changed. A socket bound to one address has no such weakness.
//
// # Errors of the network
//
// On Linux the socket asks for ICMP errors (IP_RECVERR of ip(7)) and hands "port unreachable" and
// "too big" on as hints ([Conn.Hints]). The kernel announces each by failing some later call, which
// is made again: no packet is lost or held for the one that drew the error. The queue of errors is
// read only after such a failure, some at a time, and is a part of the receive buffer. The limits
// that routers report are hints as well: the socket sends packets of any size that the interface
// takes (IP_PMTUDISC_PROBE).
//
// # Further sockets
//
// A translator of addresses, such as a Service of Kubernetes, tells flows apart by their ports, and
// leads a flow to one host for as long as packets of it come, also when the host is gone. So on
// Linux packets to a peer can be made to leave by another socket ([Conn.Renew]), and what comes to
// that is received as well. A Conn has four such sockets at most. One that nobody leaves by any
// more is closed by the next Renew; a peer that was sent nothing for a minute is forgotten, and of
// more than 1,024 the one that was sent nothing for the longest time. A socket on a port that was
// asked for has none: firewalls may know the port. Nor has one of another network namespace than
// that of the thread that calls Renew, if the kernel tells them apart (Linux 5.14).
//
// # Other systems
//
// The portable implementation uses package net and a goroutine that reads. It is
// used where the Linux one is not available, or where [Config.Portable] asks for it. Bound to all
// addresses it lets the system choose the source of each packet: clients have to use the one that
// the system chooses.
//
// # Packet sizes
//
// Sizes are bytes of UDP payload. Packets are never fragmented on the way (RFC
// 8899 gives the reasons): one that does not fit the interface is dropped and
// counted. [PathMTU] helps to choose [Config.MTU].
package udp
