package monotime

import "time"

// Time is a point on a monotonic clock: nanoseconds since an arbitrary start. Only the times
// of one clock can be compared. 0 comes before every reading of the clock, so it can mean
// "never yet".
type Time int64

// Never is later than every reading of the clock.
const Never Time = 1<<63 - 1

// Add returns the time that is d later.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns how much later t is than u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }
