//go:build !linux

package sys

import "runtime"

// Yield lets another goroutine run; systems other than Linux are not asked for more.
func Yield() { runtime.Gosched() }
