//go:build !unix

package main

import "time"

// cpu returns 0: the CPU time is not measured on this system.
func cpu() time.Duration { return 0 }
