package main

import (
	"fmt"
	"runtime"
	"time"
)

// clock times the rows. On a machine that others use, CPU time is steadier than the
// time of day: a row that waits for its turn gets no slower.
type clock struct {
	now func() time.Duration // for rows of one thread
	all func() time.Duration // for rows whose collector counts
}

// use is the clock of this run.
var use clock

// setClock chooses the clock, "wall" or "cpu", for the calling goroutine.
func setClock(name string) error {
	begin := time.Now()
	wall := func() time.Duration { return time.Since(begin) }
	switch name {
	case "wall":
		use = clock{wall, wall}
	case "cpu":
		runtime.LockOSThread()
		use = clock{func() time.Duration { return cpuTime(threadClock) },
			func() time.Duration { return cpuTime(processClock) }}
	default:
		return fmt.Errorf("-clock %s: want wall or cpu", name)
	}
	return nil
}
