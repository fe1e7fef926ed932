//go:build !amd64 && !arm64

package sys

import "unsafe"

func prefetch(unsafe.Pointer, uintptr) {}

// PrefetchEach does nothing on this processor.
func PrefetchEach(*unsafe.Pointer, uintptr, uintptr) {}

// PrefetchAt does nothing on this processor.
func PrefetchAt(unsafe.Pointer, *uint32, uintptr, uintptr, uintptr) {}
