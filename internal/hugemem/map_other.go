//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package hugemem

import "unsafe"

// mapPlain takes memory from the Go heap, which frees it after the last use.
func mapPlain(size int) ([]byte, error) {
	raw := make([]byte, size+PageSize)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (PageSize - 1)
	return raw[skip : skip+size : skip+size], nil
}

func unmap([]byte) error { return nil }
