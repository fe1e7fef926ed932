//go:build !linux

package load

import "time"

// sleeper sleeps as long as the system's timers let it.
type sleeper struct{}

func newSleeper() (*sleeper, error) { return &sleeper{}, nil }

func (*sleeper) sleep(d time.Duration) error { time.Sleep(d); return nil }
func (*sleeper) close()                      {}
