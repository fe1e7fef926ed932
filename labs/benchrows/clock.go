package benchrows

import (
	"fmt"
	"runtime"
	"time"
)

// Clock times rows. On a machine that others use, CPU time is steadier than the time of day: a row
// that waits for its turn gets no slower.
type Clock struct {
	Thread  func() time.Duration // for rows of one thread, the calling one
	Process func() time.Duration // for rows whose other threads count, the collector's too
}

// NewClock returns the clock "wall" or "cpu"; the latter ties the calling goroutine to its thread.
func NewClock(name string) (*Clock, error) {
	switch name {
	case "wall":
		begin := time.Now()
		wall := func() time.Duration { return time.Since(begin) }
		return &Clock{wall, wall}, nil
	case "cpu":
		runtime.LockOSThread()
		return &Clock{func() time.Duration { return cpuTime(threadClock) },
			func() time.Duration { return cpuTime(processClock) }}, nil
	}
	return nil, fmt.Errorf("clock %s: want wall or cpu", name)
}

// Loop calls fn, which does n operations, for some time, and returns the nanoseconds of one.
func (c *Clock) Loop(each time.Duration, n int, fn func()) float64 {
	begin := c.Thread()
	for ops := 0; ; {
		fn()
		ops += n
		if t := c.Thread() - begin; t >= each {
			return float64(t) / float64(ops)
		}
	}
}
