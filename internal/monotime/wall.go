package monotime

import "time"

// Until returns how far ahead a deadline of a context lies; negative if it has passed.
func Until(deadline time.Time) time.Duration { return time.Until(deadline) }

// WallAfter returns the deadline of a context that ends after d.
func WallAfter(d time.Duration) time.Time { return time.Now().Add(d) }

// Wall returns the time of day.
func Wall() time.Time { return time.Now() }
