// Package msgbuf provides message buffers: the memory that messages are sent
// from and received into without a copy, and the pools it comes from.
//
// # Map
//
//	owns       memory of messages, in classes of sizes, outside the Go heap
//	called by  sessions, endpoints and applications, each for the buffers it owns
//	never      two own a buffer, or a buffer is freed while a transport refers to it
//
// # Layout
//
// A buffer holds one message of any number of packets (eRPC, section 4.2.1 and
// figure 2):
//
//	offset  0         24               24+MaxSize, rounded up to 8
//	        +---------+----------------+----------+----------+----
//	        | header  | data           | header   | header   | ...
//	        | of pkt 0| of all packets | of pkt 1 | of pkt 2 |
//	        +---------+----------------+----------+----------+----
//
// The data is contiguous, so that the application sees one slice. The header of
// packet 0 stands right before it, so that a one-packet message is one piece of
// memory; buffers start at multiples of 64 bytes, so that with up to 40 bytes of
// data it is also one cache line. All other packets consist of two pieces.
//
// The later headers stand behind the largest message that fits, not behind the
// current one, so that Resize moves nothing and a header and data never overlap,
// whatever the order of calls. There is room for the headers of packets with at
// least [MinDataPerPacket] bytes of data each.
//
// A buffer of [Pool.Wrap] has its data elsewhere, in memory that somebody else owns: on the Go
// heap, say. Then the pool has only the headers, one behind the other, and every packet consists of
// two pieces. [Pool.Into] makes one that only receives.
//
// # Ownership
//
// A buffer belongs to the application from Alloc on, to the library between Lend
// and Return (eRPC, section 4.2.2), and to nobody after Free. Each side calls only
// its own methods while it owns the buffer. The goroutine that gives a buffer away
// must do it by something that orders memory: a call, a channel, a ring.
//
// Lend, Resize and Free check the owner in every build: they refuse, or count
// the mistake and leave everything as it is. With the build tag "invariants" or under
// the race detector each mistake panics instead, all memory of a freed buffer is
// overwritten with 0xDB, and a freed [Buffer] is never used again, so that a late use of
// an old pointer is noticed even after the memory went to somebody else. In ordinary
// builds Free writes nothing, and that last mistake cannot be seen: the old pointer is
// the new buffer.
//
// # Pools
//
// A [Pool] keeps buffers in classes: one to four cache lines, then two sizes per
// doubling. Small ones are cut from regions of 256 KiB or 2 MiB and stay in the
// pool until [Pool.Trim]. Buffers of 1 MiB and more are mapped one by one; of free
// ones only a few are kept, so that memory returns to the system soon after
// large messages were in use.
package msgbuf
