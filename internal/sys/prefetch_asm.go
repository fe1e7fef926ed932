//go:build amd64 || arm64

package sys

import "unsafe"

// prefetch asks for lines cache lines.
//
//go:noescape
func prefetch(p unsafe.Pointer, lines uintptr)
