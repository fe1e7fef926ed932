//go:build !linux

package main

import "runtime"

// sharedCores and invariantClock are not known here.
func sharedCores() []string { return nil }

func invariantClock() (is, ok bool) { return false, false }

func clockSource() string { return "the system's" }

// findSystem says what this system lacks beside Linux.
func findSystem() []finding {
	return []finding{{"kernel bypass", false, "none on " + runtime.GOOS, "Linux"}}
}
