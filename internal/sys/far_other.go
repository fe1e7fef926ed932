//go:build !amd64

package sys

func far(n, lines uintptr) bool { return false }
