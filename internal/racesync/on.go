//go:build race && !erpc_strict_race

package racesync

import (
	"runtime"
	"unsafe"
)

var edge byte

// Send comes before packets are sent.
func Send() { runtime.RaceReleaseMerge(unsafe.Pointer(&edge)) }

// Receive comes after packets were received.
func Receive() { runtime.RaceAcquire(unsafe.Pointer(&edge)) }
