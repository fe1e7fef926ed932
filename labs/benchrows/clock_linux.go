package benchrows

import (
	"time"

	"golang.org/x/sys/unix"
)

// clocks of CPU time: of the calling thread, and of the process with its collector.
const (
	threadClock  = unix.CLOCK_THREAD_CPUTIME_ID
	processClock = unix.CLOCK_PROCESS_CPUTIME_ID
)

func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err) // Linux has both clocks
	}
	return time.Duration(t.Nano())
}
