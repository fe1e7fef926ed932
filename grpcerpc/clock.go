package grpcerpc

import "time"

// clock is the time by which connections age and ClientConns become idle. Tests have another one.
type clock struct {
	now   func() time.Time
	after func(time.Duration, func()) timer // the function has a goroutine of its own
}

// timer is a *time.Timer of time.AfterFunc, but in tests.
type timer interface {
	Stop() bool
	Reset(time.Duration) bool
}

var systemClock = clock{time.Now,
	func(d time.Duration, f func()) timer { return time.AfterFunc(d, f) }}
