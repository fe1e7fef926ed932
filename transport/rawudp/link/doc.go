// Package link asks the kernel what a raw endpoint must know of its network: the state of
// an interface, its addresses, routes and neighbours. It is the rawudp.Network of Linux,
// over netlink (rtnetlink(7)). It changes nothing but the neighbour table, and there only asks
// the kernel to look for a neighbour.
//
// # Map
//
//	owns       the kernel's routes, neighbours and state of one link
//	called by  the frame devices
//	never      the loop waits for an answer of the kernel
package link
