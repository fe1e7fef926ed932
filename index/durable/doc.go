// Package durable keeps an index.Map or an index.Bytes in a folder, by a log of its writes and by
// snapshots. A [Store] takes the writes; reads go to the map itself, which knows nothing of logs.
//
// # The folder
//
//	lock     is locked while a process uses the folder
//	log-N    the writes, in order; the next file begins when one is large. N counts from 1
//	base-N   a snapshot of the map after log-1 to log-N. A new folder begins with base-0
//	*.new    a file that is not complete
//
// A map is its last base and the logs behind that. Older files are removed. All files have one
// form, numbers are little-endian:
//
//	header  0 magic u64 · 8 version u32 · 12 kind of values u32 · 16 index u64 · 24 N u64 ·
//	        32 log or base u32 · 36 zero u32 · 40 CRC-32C u32 · 44 zero u32
//	frame   0 magic u32 · 4 size of payload u32 · 8 its CRC-32C u32 · 12 flags u32 ·
//	        16 synced u64 · 24 CRC-32C u32 · 28 zero u32 · 32 payload, filled up to 8 n bytes
//	record  operation (1), length of key (1), key, and of a put the value: 8 bytes, or its length
//	        u32 and the value
//
// A frame's payload is the records that were written together. Its second checksum covers the
// identity of the index, N, the frame's place in the file, and what is before it; so neither data
// in a value nor a frame of another file passes for one. The field synced says how many bytes of
// the file were synced when the frame was written. The flag last is on the last frame of a complete
// file.
//
// # Order
//
// A write locks a stripe of keys, changes the map, and appends its record to a buffer, before it
// unlocks the stripe. So the records of a key are in the order of its changes, and a write that
// begins when another one has returned comes behind that one in the log. A goroutine writes the
// buffer out, and syncs the file as [Policy] says. One sync serves all writes that came before it.
// Reads go to the map: they may see a write that is not acknowledged yet, and that a crash loses.
//
// What a recovery finds is the state after a beginning of the log: none of its records is left out
// before another one that counts.
//
// A snapshot is a scan while writes go on. It begins after the logs up to N are complete: what
// their records say is in the map by then, since a record follows its change. The base gets its
// name when all records are synced that were there when the scan ended. So a base says nothing that
// the logs behind it may lose, and these make of it the state at their end, whatever of it the scan
// saw.
//
// # What can go wrong
//
//   - A write or a sync fails, as on a full disk. Nothing is written from then on, and no sync is
//     tried again: the system may have dropped the pages and say that all is well (the next sync of
//     such a file succeeds). All writes, also those that wait, get [ErrFailed]. Reads go on. The
//     map may have changes then that no log has. A snapshot that fails harms nothing: it is
//     reported, and tried again when the next log is full.
//   - A sync hangs. With Always, nothing is acknowledged meanwhile. With EverySecond writes wait
//     after a second. It is reported.
//   - The process is killed, or the power fails, at any time. The end of the last log can be
//     missing, torn or have holes. A bad frame there ends it, if no later frame says that it was
//     synced. What is whole is copied to a new file, synced, and renamed over the old one: so no
//     byte counts that only the memory of the system has.
//   - Bytes are flipped. A bad frame that was synced is [ErrDamaged], and nothing is changed. To
//     know more of what was synced, an empty frame is written after each sync that no write
//     follows. Damage to the last frame after a power failure may look like a torn one.
//   - Names are lost. A file gets its name when its content is synced, names are synced before
//     anything depends on them, and nothing is removed before. Numbers that are missing between
//     others are ErrDamaged. That somebody has removed the newest log, or cut it, may pass for a
//     crash: what was in it is gone.
//   - A full disk: a start copies the last log, and needs as much room, some 64 MiB.
//   - Many large writes while the disk hangs: 8 MiB wait in memory, and one write for each of 64
//     stripes of keys. A GiB of those that do not wait (Try) is the limit, ErrBehind.
//   - Two processes use one folder: the second one gets [ErrInUse].
//   - A newer program has written the folder: [ErrVersion]. Version 1 is the first.
//   - The folder is that of a map of the other kind, of something else, or no folder; files of
//     another index are among its own; a map that is not empty meets a folder with an index:
//     [ErrForeign]. Nothing is changed.
//
// # Map
//
//	owns       the files of one index, the order of its writes
//	called by  index/server, cmd/erpc-index, applications, from any goroutine
//	never      acknowledges a write that its Policy does not cover; reads a map wrongly
package durable
