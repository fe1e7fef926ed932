//go:build unix

package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time of this process so far, user and system; 0 where it is unknown.
func CPUTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
