//go:build !linux

package main

import "time"

// pin does nothing on this system.
func pin(int, int) error { return nil }

// cpuTime is not measured on this system.
func cpuTime() time.Duration { return 0 }
