package sys

import "unsafe"

// Overlap reports whether two slices have bytes of memory in common.
func Overlap(a, b []byte) bool {
	from, to := start(a), start(b)
	return len(a) > 0 && len(b) > 0 && from < to+uintptr(len(b)) && to < from+uintptr(len(a))
}

// start returns the address of a slice's first byte.
func start(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
