package index

import (
	"sync/atomic"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

// hugePages says whether HugePages was called.
var hugePages atomic.Bool

// HugePages makes all maps of the process ask the system for huge pages for the memory that they
// get from now on. It is for processes whose memory is a large map in the main: there GETs and PUTs
// of keys in no order take about a third less time, since the processor has fewer addresses to
// translate. Linux grants it unless transparent_hugepage is "never"; elsewhere nothing happens.
//
// The memory is the Go heap's, 4 MiB of it around a node. What else lies there gets huge pages too,
// and the system may fill parts again that the runtime has given back to it: the process may come
// to take as much as its heap had at most.
func HugePages() { hugePages.Store(true) }

// settle asks for what a new node is to lie in.
func settle(n *node) {
	if hugePages.Load() {
		hugemem.AdviseHeap(unsafe.Pointer(n))
	}
}
