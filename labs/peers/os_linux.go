package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a process at a spot: it inherits core and network of the thread that starts it, so
// the Go runtime in it plans for one core from the beginning.
func start(c *exec.Cmd, at spot) error {
	return inNet(at.net, func() error { return startOn(c, at.core) })
}

func startOn(c *exec.Cmd, core int) error {
	if core < 0 {
		return c.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return os.NewSyscallError("sched_setaffinity", err)
	}
	err := c.Start()
	if rerr := unix.SchedSetaffinity(0, &before); err == nil && rerr != nil {
		err = os.NewSyscallError("sched_setaffinity", rerr)
	}
	return err
}

// cpuTime returns the CPU time that a process has used, 0 if it is not known. A
// process's CPU clock has the id ~pid<<3|2 (clock_getcpuclockid(3)).
func cpuTime(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// noThreads says why threads cannot be counted; empty if they can.
const noThreads = ""

// threads returns how many this process has.
func threads() (int, error) {
	list, err := os.ReadDir("/proc/self/task")
	return len(list), err
}

// peakMemory returns the most bytes that this process had resident, 0 if that is not known.
func peakMemory() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
