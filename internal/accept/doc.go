// Package accept keeps a listener listening: [Patient] wraps one whose Accept waits when the system
// has no room for a connection, as with too many open files, and tries again.
//
// # Map
//
//	owns       the listener
//	called by  servers that take TCP connections
//	never      an error that passes ends a server's port
package accept
