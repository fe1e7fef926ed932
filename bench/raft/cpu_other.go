//go:build !unix

package main

import "time"

// usedCPU is not known here.
func usedCPU() time.Duration { return 0 }
