//go:build !amd64 && !arm64

package sys

import "unsafe"

func prefetch(unsafe.Pointer, uintptr) {}
