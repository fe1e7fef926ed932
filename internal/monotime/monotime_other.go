//go:build !amd64

package monotime

import "time"

// base carries the monotonic clock reading that Now counts from.
var base = time.Now()

// Now returns the nanoseconds since the process started, plus one, on a clock that
// never goes backwards and that nobody sets. It is always positive, so 0 can mean
// "never". Only differences within one process mean anything.
//
// One call costs about 25 ns (a vDSO call on Linux).
func Now() int64 {
	// Since looks at the monotonic reading only and is half the price of time.Now.
	return int64(time.Since(base)) + 1
}
