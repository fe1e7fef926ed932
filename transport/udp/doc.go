// Package udp carries packets over the kernel's UDP sockets. It is the default
// transport: it needs no privileges and works over IPv4 and IPv6.
//
// # How it is fast on Linux
//
// One system call moves many packets. Consecutive packets of equal size to one
// peer leave as a train: a single datagram that the kernel cuts up as late as it
// can (UDP_SEGMENT, "GSO"), and that it hands over whole to a receiver that
// asked for it (UDP_GRO). Several trains go out with one sendmmsg and come in
// with one recvmmsg. Where packets are few, each takes one sendto or recvmsg, so
// that a lone request pays for none of this.
//
// The socket never blocks in TxBurst and RxBurst, so those calls skip the Go
// scheduler. Wait does block, in ppoll, and frees its processor meanwhile.
//
// # Other systems
//
// The portable implementation uses package net and a goroutine that reads. It is
// used where the Linux one is not available, or where [Config.Portable] asks for it.
//
// # Packet sizes
//
// Sizes are bytes of UDP payload. Packets are never fragmented on the way (RFC
// 8899 gives the reasons): one that does not fit the interface is dropped and
// counted. [PathMTU] helps to choose [Config.MTU].
package udp
