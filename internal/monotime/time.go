package monotime

import (
	"math"
	"time"
)

// Time is a point on a monotonic clock, in nanoseconds since a start that the clock
// chooses. Only differences between times of one clock mean anything. Clocks start
// above 0, so that a field may use 0 for what has not happened.
//
// Times of one clock are compared with the operators of the language.
type Time int64

// Never is a time that does not come: no other is later.
const Never Time = math.MaxInt64

// Add returns the time that is d after t, or before it if d is negative. It does not
// look for overflow: Never.Add(1) is long ago.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns the time from u to t, negative if t is the earlier one. It does not look
// for overflow either.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }
