//go:build !linux

package main

import "runtime"

func clockSource() string { return "the system's" }

// findSystem says what this system lacks beside Linux.
func findSystem() []finding {
	return []finding{{"kernel bypass", false, "none on " + runtime.GOOS, "Linux"}}
}
