package etcd

import (
	"time"

	"golang.org/x/sys/unix"
)

// machine is this machine's clock.
var machine = clock{now: boottime, after: time.After}

// boottime counts the time in which the machine sleeps too: etcd does, on another one.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(start)
	}
	return time.Duration(ts.Nano())
}

var start = time.Now()
