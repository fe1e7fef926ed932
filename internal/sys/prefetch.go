package sys

import "unsafe"

// line is the size of a cache line in bytes. Where lines are longer, some are asked
// for twice.
const line = 64

// Prefetch asks for the size bytes from p on to be brought into the cache, and does not
// wait for them. It is a hint: a processor without such an instruction does nothing.
// For data of which much is needed soon, such as the sessions of a whole burst of
// packets, whose misses then overlap (G-Opt, NSDI 2015).
func Prefetch[T any](p *T, size uintptr) {
	prefetch(unsafe.Pointer(p), (size+line-1)/line)
}

// PrefetchEach asks for the first lines cache lines behind each of the n pointers at ps.
func PrefetchEach(ps *unsafe.Pointer, n, lines uintptr) {
	prefetchEach(ps, n, lines, far(n, lines))
}

// PrefetchAt asks for the first lines cache lines of n elements of a table that begins at base: the
// numbers of the elements are at at, and the size of an element in bytes is stride.
func PrefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr) {
	prefetchAt(base, at, n, stride, lines, far(n, lines))
}
