//go:build amd64 || arm64

package sys

import "unsafe"

// prefetch asks for lines cache lines.
//
//go:noescape
func prefetch(p unsafe.Pointer, lines uintptr)

// PrefetchEach asks for the first lines cache lines behind each of the n pointers at ps.
//
//go:noescape
func PrefetchEach(ps *unsafe.Pointer, n, lines uintptr)

// PrefetchAt asks for the first lines cache lines of n elements of a table that begins at base: the
// numbers of the elements are at at, and the size of an element in bytes is stride.
//
//go:noescape
func PrefetchAt(base unsafe.Pointer, at *uint32, n, stride, lines uintptr)
