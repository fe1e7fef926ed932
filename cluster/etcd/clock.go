package etcd

import (
	"context"
	"time"
)

// clock is the time of a process: the tests have clocks that drift and processes that stand still.
type clock struct {
	now   func() time.Duration // since a start of its own; it goes on while the machine sleeps
	after func(time.Duration) <-chan time.Time
}

// limit returns a context that also ends when a time has passed by this clock.
func (k clock) limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := k.after(d)
	go func() {
		select {
		case <-timer:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
