// Package shmem moves packets through memory that two processes map: a ring of
// 64-byte cells for each direction, written by one side and read by the other.
//
// # Map
//
//	owns       a ring of packets in memory of two processes
//	called by  transport/shm
//	never      a peer's write to the memory makes this side read outside of it
//
// # The ring
//
// A packet takes whole cells in a row. The first 8 bytes of its first cell are the
// header word, the packet's bytes follow at once:
//
//	cell   k                k+1              k+2
//	       +--------+------+----------------+--------+
//	       | header | packet bytes ....              |  next packet ...
//	       +--------+------+----------------+--------+
//	header = position of the cell (32 bits) | kind (2 bits) | length in bytes (30 bits)
//
// A packet of up to 56 bytes is exactly one cache line. Positions count cells and only
// grow; the block of a position is the remainder of its upper bits, since the number of
// cells is a power of two.
//
// Single cells are not in the order of their positions: within a block of 32 cells,
// position i is cell 19*i mod 32. If they were, prefetchers would see a stream, and
// fetch the lines ahead, which the writer is about to write. That costs each line a second
// journey: between far cores a packet takes 140 ns that way and 65 ns scattered, between near
// ones 35 and 12.
//
// Larger packets take cells in a row. A block that begins with one, or in the middle of
// one, is in order up to its end. If a large packet follows single cells it begins with the next
// block, and one that does not fit before the end of the ring goes to the ring's start: a header of
// kind "pad" says how many cells are left out.
//
// The reader looks at the header word of the cell where it stands: 0 means that
// nothing has been written there. The writer keeps this true for stale memory: before
// it publishes a packet it writes 0 to the header word behind it. For that one
// cell always stays free. So nothing that was in the ring a round ago, and nothing
// that a packet's bytes look like, is ever taken for a header.
//
// A burst costs one atomic store: all packets are written with plain stores, the
// header of the first one last. The reader tells how far it has come once per
// eighth of the ring.
//
// # Who writes what
//
//	word                     written by   read by
//	header words, packets    writer       reader (which may also write to the packets it holds)
//	consumed position        reader       writer
//	Bell.count               its owner    everybody else; they cannot write: the file is sealed
//
// Each of these words has a cache line of its own. The positions where a side stands
// are in its private memory; only copies are shared.
//
// # A hostile other side
//
// Each shared word is loaded once, atomically, checked, and only the loaded value is
// used. A value that no honest side writes makes the ring dead: [Consumer.Next] and
// [Producer.Put] do nothing any more. Whatever the other side writes, no access
// leaves the mapping. Packets of at most [CopyMax] bytes are copied out before anyone
// looks at them; larger ones are handed out where they are, and the other side can
// change their bytes at any time.
package shmem
