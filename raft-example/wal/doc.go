// Package wal is the durable log of a replica: what it looks like as bytes (pure), and
// the folder it is kept in.
//
// A folder holds these files. "log" has a header and then records, each of which was
// written and synced before the next one was written:
//
//	header: 0 magic u64 · 8 version u32 · 12 zero u32 · 16 cluster · 24 replica · 32 identity ·
//	        40 CRC-32C u32 · 44 zero u32
//	record: 0 magic u32 · 4 payload size u32 · 8 CRC-32C u32 · 12 zero u32 ·
//	        16 payload, filled up to a multiple of 8
//
// The version is the format plus one: a program that does not know it refuses the folder, as
// FormatError. It is 0 until something of a later format is to be written; see Dir.Raise.
//
// A record's checksum covers the log's identity, the record's place and its payload, so
// neither data inside a payload nor a record of an older file can pass for one.
// "snapshot", if there is one, is a raftpb.Snapshot with such a header and a checksum.
//
// "peers" has such a header and the identities of the other replicas' logs, so that one whose
// disk was wiped is recognised when all start again.
//
// "lock" is locked while the folder is in use. It has the process as text and stays.
//
// # Map
//
//	owns       the files of one log
//	called by  node
//	never      a damaged record is taken for a whole one
//
// # What a crash leaves
//
// At most the last record can be torn. So a bad record with nothing valid behind it is cut
// off, since nothing of it was acknowledged; a bad record with a valid one behind it is
// ErrCorrupt, and the log is refused. "synced" says how much of the log was synced: a bad record
// before that is ErrCorrupt, too, also the last one. The file is written after each sync and
// not synced itself, so after a power failure it may know of less; then a last record that was
// damaged cannot be told from a torn one. Dir.Scrub finds damage while the log is in use.
//
// The log is never shortened in place: a new one that begins behind a snapshot is
// written beside it and renamed over it.
package wal
