// Package memcached serves partitions of package mica to existing clients of memcached, over TCP in
// memcached's text protocol (memcached's protocol.txt): the classic commands get, gets, gat, gats,
// set, add, replace, append, prepend, cas, incr, decr, touch, delete, stats, version, verbosity,
// flush_all and quit, and the meta commands mg, ms, md, ma and mn.
//
// # Map
//
//	owns       connections of memcached's clients
//	called by  cmd/erpc-kv and applications
//	never      a bad command ends more than its connection
//
// # Who owns what
//
// A [Store] runs functions on its partitions, one at a time on each. [Local] is one with a lock per
// partition. kv/server.Server is one too: then eRPC's clients and memcached's share the items, and
// each command waits for the partition's event loop. The clock of the partitions has to be seconds
// since 1970, since some clients send such times.
//
// A connection has a goroutine. Commands that a client sends without waiting are answered in one
// write, and the keys of one get are looked up in a batch.
//
// With [Config.TLS] all connections are encrypted, and clients show certificates if it says so.
//
// # What differs from memcached
//
//   - Keys have up to 250 bytes and values up to 1 MiB, as there. A set of a larger value keeps the
//     old item, which memcached removes.
//   - The meta flags E, N, R, I, h, l and x are refused: there are no stale items, and nobody
//     counts reads of an item. So are the binary protocol, UDP and SASL.
//   - stats has the general counters only.
//   - The value of a refused command is never run as commands. A set with too long a key or wrong
//     flags is answered as there, and its value is read and dropped. Where the line has no length
//     of a value the connection ends.
//   - A line of HTTP, of TLS or of the binary protocol ends the connection.
//
// # Bad input
//
// A line has 32 KiB at most, and a connection whose line is longer is closed. A value takes memory
// as it comes. Answers are made 256 KiB at a time, or one larger value, so a client that asks for
// much and reads nothing costs no more than that. They wait for it for [Config.WriteTimeout], and
// then the connection ends. Connections beyond [Config.MaxConns] are closed with an error. When the
// process has no files left, clients wait for one. With TLS a client has ten seconds for its
// handshake. One that speaks none gets a line that says so.
package memcached
