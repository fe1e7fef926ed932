//go:build !unix

package run

import "time"

// CPUTime is the CPU time of this process so far, user and system; 0 where it is unknown.
func CPUTime() time.Duration { return 0 }
