package gopt

import (
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/sys"
)

// Batch is how many lookups the batched functions of this project interleave.
const Batch = 32

// Line is the size of a cache line in bytes.
const Line = 64

// Prefetch asks for the first lines cache lines of what each of ps points at, and waits for
// nothing. It is a hint: pointers may be nil, and lines may lie behind what is pointed at.
func Prefetch[T any](ps []*T, lines int) {
	if len(ps) > 0 {
		first := (*unsafe.Pointer)(unsafe.Pointer(unsafe.SliceData(ps)))
		sys.PrefetchEach(first, uintptr(len(ps)), uintptr(max(lines, 0)))
	}
}

// PrefetchAt asks for the first lines cache lines of table[at[0]], table[at[1]] and so on. It is a
// hint: numbers beyond the table are allowed.
func PrefetchAt[T any](table []T, at []uint32, lines int) {
	if len(at) > 0 {
		var t T
		base := unsafe.Pointer(unsafe.SliceData(table))
		sys.PrefetchAt(base, unsafe.SliceData(at), uintptr(len(at)), unsafe.Sizeof(t),
			uintptr(max(lines, 0)))
	}
}
