// Package gid tells goroutines apart, to detect that something made for one
// goroutine is used by another. Go offers no identity for that on purpose; so this is only for
// checks that name a mistake: erpc.Rpc tells a callback's call from a stranger's by it. No
// program may depend on it for what it does.
//
// # Map
//
//	owns       the identity of the running goroutine
//	called by  package erpc, to name calls from a wrong one
//	never      what a program does depends on it
package gid
