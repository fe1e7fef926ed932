// Package shm joins two processes of a machine by the one-sided operations of package onesided: the
// regions are memory files that both map, a WRITE is a copy whose last word is stored last, and a
// READ is a copy. Nothing travels but the bytes themselves, and both directions cost the same.
//
// # Map
//
//	owns       memory files of two processes
//	called by  labs/cmd/erpc-rfp and applications
//	never      a client changes what the server answers to others
//
// # Who can do what
//
// The listening side makes all files, and hands them over a unix socket. Their size is sealed, so
// no access can fault. A file that the peer may only read is sealed against writing, so a client
// cannot change the server's answers, its own or those of others: each link has files of its own.
// The dialling side checks size, seals and kind of each file before it maps it.
//
// The socket stays open while the link lives. The kernel closes it when a process ends, also by
// kill -9, and the other side's link ends with ErrPeer.
//
// It needs Linux.
package shm
