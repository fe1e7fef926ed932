//go:build !amd64 && !arm64

package sys

import "unsafe"

func prefetch(unsafe.Pointer, uintptr) {}

func prefetchEach(*unsafe.Pointer, uintptr, uintptr, bool) {}

func prefetchAt(unsafe.Pointer, *uint32, uintptr, uintptr, uintptr, bool) {}
