//go:build !unix

package main

import "time"

// usedCPU is not known here.
func usedCPU() time.Duration { return 0 }

// nap sleeps.
func nap(d time.Duration) { time.Sleep(d) }
