// Package shmem moves packets through memory that two processes map: a ring of
// 64-byte cells for each direction, written by one side and read by the other.
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
// A packet of up to 56 bytes is exactly one cache line. A packet that does not fit
// before the end of the ring goes to its start; a header of kind "pad" in its place
// says so. Positions count cells and only grow; the cell of a position is its
// remainder by the number of cells, a power of two.
//
// The reader looks at the header word of the cell where it stands: 0 means that
// nothing has been written there. The writer keeps this true for stale memory: before
// it publishes a packet it writes 0 to the header word behind it, which is why one
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
