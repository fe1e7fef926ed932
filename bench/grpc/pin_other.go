//go:build !linux

package main

import "time"

// pin does nothing on this system.
func pin(int, int) error { return nil }

// ownCPU returns 0: not measured here.
func ownCPU() time.Duration { return 0 }
