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
