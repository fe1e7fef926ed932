package monotime

import "github.com/userspace-rpc/erpc/internal/monotime"

// Time is a point on a monotonic clock, in nanoseconds since a start that the clock chooses.
type Time = monotime.Time

// Never is a time that does not come: no other is later.
const Never = monotime.Never

// Now reads the clock that an Rpc reads.
func Now() Time { return monotime.Now() }
