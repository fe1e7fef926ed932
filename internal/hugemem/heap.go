package hugemem

import (
	"sync/atomic"
	"unsafe"
)

// heapBlock is the unit in bytes in which the Go runtime takes memory for its heap.
const heapBlock = 4 << 20

// advised has numbers of blocks of the heap that AdviseHeap has asked for. Blocks that share a
// place push each other out and are asked for again, which does no harm; they lie 32 GiB apart.
var advised [8192]atomic.Uintptr

// AdviseHeap asks the system to back the memory around p, an object of the Go heap, with
// transparent hugepages: the block of 4 MiB that the runtime took for it and for other objects.
// What lies there already moves to hugepages at once, where the system can do that (Linux 6.1). It
// is a hint, and costs next to nothing for a block that it knows.
func AdviseHeap(p unsafe.Pointer) {
	block := uintptr(p) / heapBlock
	at := &advised[block%uintptr(len(advised))]
	if at.Load() != block {
		at.Store(block)
		adviseBlock(block * heapBlock)
	}
}
