//go:build unix

package main

import (
	"syscall"
	"time"
)

// usedCPU is the processor time of this process.
func usedCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nap sleeps in the kernel.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it: the caller looks at the clock
}
