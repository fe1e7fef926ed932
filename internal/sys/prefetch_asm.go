//go:build amd64 || arm64

package sys

import "unsafe"

//go:noescape
func prefetch(p unsafe.Pointer, lines uintptr)

// prefetchEach and prefetchAt ask for the first level of the cache, or, if far, for the second.
//
//go:noescape
func prefetchEach(ps *unsafe.Pointer, n, lines uintptr, far bool)

//go:noescape
func prefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr, far bool)
