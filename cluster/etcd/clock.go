package etcd

import "time"

// clock is the time of a process: the tests have clocks that drift and processes that stand still.
type clock struct {
	now   func() time.Duration // since a start of its own; it goes on while the machine sleeps
	after func(time.Duration) <-chan time.Time
}
