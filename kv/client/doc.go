// Package client talks to key-value servers: [Client] from goroutines, [Loop] in the thread of an
// event loop.
//
// # Map
//
//	owns       calls of one application to key-value servers
//	called by  applications, cmd/erpc-kv
//	never      a key goes to another server than for other clients of the same names
//
// # Which server, which partition
//
// The server of a key is the one whose name, hashed together with the key's hash, gives the largest
// number (rendezvous hashing, Thaler and Ravishankar, 1998). So when a server comes or goes, only
// the keys that are its share move. The partition follows from the hash of the key alone. Names are
// the addresses as they were given: all clients must use the same.
//
// A server that is dead or unreachable costs its share only: operations on its keys fail with the
// error of the connection, those on others go on. Nothing is stored twice.
//
// # Errors
//
// An operation that fails with an error that does not match erpc.ErrNotRun may have run. The client
// repeats nothing by itself.
package client
