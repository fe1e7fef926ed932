// Package recverr turns what the kernel keeps in a socket's error queue (IP_RECVERR of ip(7)) into
// hints of a transport.
//
// # Map
//
//	owns       hints that wait for Transport.Hints
//	called by  transports with a kernel UDP socket, in their using goroutine
//	never      more memory than for 64 hints; memory before the first one
package recverr
