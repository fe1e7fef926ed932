// Package memsize tells how much memory a process can use: the machine's, or what its control
// groups (version 1 or 2) leave of it.
//
// # Map
//
//	owns       how much memory there is
//	called by  package erpc, for its limit of memory
//	never      more is said than the control groups leave
package memsize
