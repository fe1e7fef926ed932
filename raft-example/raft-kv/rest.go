package main

import (
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// restAfter is for how long a replica has nothing to do until it rests.
const restAfter = time.Second

// processors is how many the process has. It no longer follows the CPU limit of its control group.
var processors = runtime.GOMAXPROCS(0)

// rest leaves the process one processor while its replica has nothing to do. A thread of Go's
// runtime watches processors that are in a system call: as long as another one is free it looks
// some fifty times, from 20 us on, in each sleep of the loop. That is more than half of what a
// replica at rest costs. With one processor it takes it back at its first look, and sleeps, too.
type rest struct {
	procs func(n int) int // runtime.GOMAXPROCS
	now   func() monotime.Time
	on    bool          // there is one
	since monotime.Time // it has nothing to do; 0: it has
}

// look is called after each pass of the loop.
func (r *rest) look(idle bool) {
	switch {
	case !idle:
		if r.since = 0; r.on {
			r.on = false
			r.procs(processors)
		}
	case r.on:
	case r.since == 0:
		r.since = r.now()
	case r.now().Sub(r.since) >= restAfter:
		r.on = true
		r.procs(1)
	}
}
