package shmem

import (
	"fmt"
	"unsafe"
)

// Offsets in a pair's memory. Words of different writers are two lines apart, since
// processors fetch lines in pairs.
const (
	pageSize     = 4096
	consumedStep = 128 // the consumed position of ring i is at i*consumedStep
	ringsAt      = pageSize
)

// Limits of a ring in bytes.
const (
	MinRing = 8192
	MaxRing = 1 << 30
	// MinLimit is the least that the largest packet of a ring may be: a cell's worth.
	MinLimit = CellSize
)

// PairSize returns the bytes of memory that two rings of ringSize bytes take.
func PairSize(ringSize int) int { return ringsAt + 2*ringSize }

// MinRingFor returns the smallest ring, in bytes, for packets of up to limit bytes.
// The reader frees eighths, and a pad can take as much as a packet and a block: so those, the
// largest packet and what is left of the block that the reader is in fit into three quarters of it.
func MinRingFor(limit int) int {
	size := MinRing
	for size/CellSize*3/4 < 2*Cells(limit)+2*block {
		size *= 2
	}
	return size
}

// Attach returns the two ends of side 0 or 1 on the memory of a pair, which must be
// zero when the first side attaches, and aligned to a cache line. limit is the largest
// packet in bytes; both sides must give the same.
func Attach(mem []byte, ringSize, limit, side int) (*Producer, *Consumer, error) {
	switch {
	case ringSize < MinRing || ringSize > MaxRing || ringSize&(ringSize-1) != 0:
		return nil, nil, fmt.Errorf("shmem: ring of %d bytes: want a power of two from %d to %d",
			ringSize, MinRing, MaxRing)
	case limit < MinLimit || limit > ringSize || ringSize < MinRingFor(limit):
		return nil, nil, fmt.Errorf("shmem: packets of %d bytes do not fit a ring of %d", limit, ringSize)
	case len(mem) != PairSize(ringSize):
		return nil, nil, fmt.Errorf("shmem: %d bytes of memory, want %d", len(mem), PairSize(ringSize))
	case uintptr(unsafe.Pointer(&mem[0]))%CellSize != 0:
		return nil, nil, fmt.Errorf("shmem: memory is not aligned")
	}
	p, c := loop(mem, ringSize, limit, side, 1-side)
	return p, c, nil
}

// loop makes the writer of ring out and the reader of ring in.
func loop(mem []byte, ringSize, limit, out, in int) (*Producer, *Consumer) {
	at := func(offset int) unsafe.Pointer { return unsafe.Pointer(&mem[offset]) }
	mask := uint64(ringSize/CellSize - 1)
	return &Producer{
			cells: at(ringsAt + out*ringSize), mask: mask, limit: limit,
			peer: (*uint64)(at(out * consumedStep)), step: scatter,
		}, &Consumer{
			cells: at(ringsAt + in*ringSize), mask: mask, limit: uint64(limit), lag: (mask + 1) / 8,
			own: (*uint64)(at(in * consumedStep)), step: scatter,
		}
}

// Loopback returns both ends of one ring in this process's own memory, for an endpoint
// that sends to itself. limit is the largest packet in bytes.
func Loopback(limit int) (*Producer, *Consumer) {
	size := 4 * MinRingFor(limit)
	// The allocator aligns large objects to pages.
	return loop(make([]byte, ringsAt+size), size, limit, 0, 0)
}
