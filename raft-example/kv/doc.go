// Package kv is the state machine of the replicated store: keys of 1 to 16 bytes, values
// of at most 64, and the sessions that make a repeated write apply once.
//
// It is pure: no I/O, no clock, no randomness. The same commands in the same order
// give the same state, results and snapshots on every replica.
//
// A request travels from the client as the very bytes that become the log entry:
//
//	0 op u8 · 1 flags u8 · 2 key size u8 · 3 value size u8 · 4 old size u8 · 5 zero [3]
//	8 cluster u64 · 16 session u64 · 24 seq u64 · 32 key, value, old value
//
// and its answer is
//
//	0 status u8 · 1 flags u8 · 2 value size u8 · 3 zero [5] · 8 number u64 · 16 value
//
// Numbers are little-endian. Every field is checked, and what is zero must be. This is format 0. An
// entry of a later one has its number in byte 5. Format 1 has two such entries. Raise is a
// leader's: from there on the cluster's version is its format. Close ends a session. One that is
// not known is an EntryError, which stops the replica.
//
// # Map
//
//	owns       the state of the store
//	called by  replica
//	never      two replicas differ after the same commands
package kv
